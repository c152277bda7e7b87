package study

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/meshtrial/meshtrial/record/finding"
)

// Reference returns the Markdown documentation of study files (docs/study.md), generated from the
// parser's tables.
func Reference() string {
	var b strings.Builder
	b.WriteString(referenceHead)
	b.WriteString("## Fields\n\nEach with its type or values, and its default.\n\n")
	writeFields(&b, root(defaultsOf(DataPlane)).Schema(), defaultTrees(), "")
	b.WriteString("\n## Measures\n\n")
	for _, k := range Kinds() {
		fmt.Fprintf(&b, "- Of %s: `%s`\n", k.About(), strings.Join(k.Measures(), "`, `"))
	}
	for i, k := range Kinds() {
		if i == 0 {
			b.WriteString("\n## Factors\n\nEach with its levels, or examples of them, and its default.\n\n")
		} else {
			fmt.Fprintf(&b, "\n## Factors of %s\n\n", k.About())
		}
		writeFactors(&b, k.Factors())
		b.WriteString(k.spec().Reference)
	}
	b.WriteString(referenceSections)
	b.WriteString(referenceFindings)
	listed := map[string]bool{}
	for _, k := range Kinds() {
		writeFindings(&b, k, listed)
	}
	return b.String()
}

// defaultTrees returns a study of each kind with every section at its defaults.
func defaultTrees() []*Node {
	var out []*Node
	for _, k := range Kinds() {
		tree, err := readTree([]byte(cmp.Or(k.spec().Sample, "{}")), "", true)
		if err != nil { // the sample is valid YAML
			panic(err)
		}
		d := &Decoder{Root: tree, kind: kindOf(tree)}
		s := defaultsOf(d.kind)
		root(s).Decode(d, tree)
		out = append(out, root(s).Encode())
	}
	return out
}

// defaultAt returns the value at a path in the first tree that has one, "" for none.
func defaultAt(trees []*Node, path string) string {
	for _, n := range trees {
		for step := range strings.SplitSeq(path, ".") {
			if n != nil {
				n = n.Get(step)
			}
		}
		if n != nil && n.Kind == Scalar && n.Text != "" {
			return n.Text
		}
	}
	return ""
}

// writeFields lists the fields of a mapping and of those below it, from its schema.
func writeFields(b *strings.Builder, s *jsonschema.Schema, defaults []*Node, prefix string) {
	for p := s.Properties.Oldest(); p != nil; p = p.Next() {
		path, words := prefix+p.Key, []string{typeOf(p.Value)}
		if slices.Contains([]string{"mapping", "list", "text"}, words[0]) {
			words = nil
		}
		if def := defaultAt(defaults, path); def != "" {
			words = append(words, def)
		} else if slices.Contains(s.Required, p.Key) {
			words = append(words, "required")
		}
		of := ""
		if len(words) > 0 {
			of = " (" + strings.Join(words, ", ") + ")"
		}
		fmt.Fprintf(b, "- `%s`%s: %s\n", path, of, Brief(p.Value.Description))
		if path == "graph" || path == "timeline" || path == "tune" { // see docs/scenarios.md and docs/tuning.md
			continue
		}
		if inner, step := mappingOf(p.Value), "."; inner != nil && !ofLevels(inner) {
			if p.Value.Items != nil {
				step = "[]."
			}
			writeFields(b, inner, defaults, path+step)
		}
	}
}

// mappingOf returns the schema of a value's fields, or of its entries' fields; nil if it has none.
func mappingOf(s *jsonschema.Schema) *jsonschema.Schema {
	for _, one := range append([]*jsonschema.Schema{s, s.Items}, s.AnyOf...) {
		if one != nil && one.Properties != nil && one.Properties.Len() > 0 {
			return one
		}
	}
	return nil
}

// ofLevels reports whether the fields of a mapping are factors.
func ofLevels(s *jsonschema.Schema) bool {
	first := s.Properties.Oldest().Value
	return first.Ref != "" || first.Items != nil && first.Items.Ref != ""
}

// typeOf describes a field's type in a word or two, or lists its values.
func typeOf(s *jsonschema.Schema) string {
	if len(s.AnyOf) > 0 {
		var words []string
		for _, one := range s.AnyOf {
			words = append(words, typeOf(one))
		}
		return strings.Join(words, " or ")
	}
	switch {
	case s.Const != nil:
		return fmt.Sprint(s.Const)
	case len(s.Enum) > 0 && len(s.Enum) <= 10:
		words := make([]string, len(s.Enum))
		for i, one := range s.Enum {
			words[i] = fmt.Sprint(one)
		}
		return strings.Join(words, "|")
	case s.Type == "object":
		return "mapping"
	case s.Type == "array":
		return "list"
	case s.Type == "string" && s.Pattern == DurationPattern:
		return "time"
	case s.Type == "string" && s.Pattern == percent.Pattern:
		return "per cent"
	case s.Type == "string" && len(s.Enum) > 0:
		return "name"
	case s.Type == "string":
		return "text"
	}
	return s.Type
}

func writeFactors(b *strings.Builder, table []Factor) {
	for _, f := range table {
		levels := strings.Join(f.Levels, "|")
		if f.Levels == nil {
			levels = strings.Join(f.Examples, "|") + "|..."
		}
		def := f.Default
		if f.Usual != "" {
			def = "usually " + f.Usual
		}
		fmt.Fprintf(b, "- `%s` (%s; %s): %s\n", f.Name, levels, def, Brief(f.Doc))
	}
}

// generic replaces the parts of a finding's name that vary within its family (part, percentile,
// type or term) by placeholders.
func generic(name string) string {
	for _, one := range []struct{ pattern, word string }{
		{`_(p50|p90|p99|p999|max)(_|$)`, "_PCT$2"},
		{`_(cds|eds|lds|rds|sds|nds|ecds|wds|wads)(_|$)`, "_TYPE$2"},
		{`_((client_|server_|idle_)?node_proxy|(client|server|entry|last)_proxy)(_|$)`, "_PART$4"},
		{`_(waypoint|gateway|generator|worker|machine)(_|$)`, "_PART$2"},
		{`^saved_`, "bill_"},
		{`_(second_control_plane|control_plane|control|unattributed|node_agent)(_|$)`, "_PART$2"},
		{`_saved_by_(none|lua)$`, "_saved_by_..."},
		{`_per_(connection|cluster|listener|route)$`, "_per_THING"},
		{`^(envoy|agent)_(cpu|memory)_`, "sidecar_${2}_"},
		{`_since_first$`, ""},
		{`^stage_(watch|debounce|push_context|queue|generate|wire|ack)$`, "stage_STAGE"},
		{`^hop_.*_(latency_PCT|cpu_[a-z]+|cpu_PART)$`, "hop_TERM_MEASURE"},
		{`\*`, "..."},
	} {
		name = regexp.MustCompile(one.pattern).ReplaceAllString(name, one.word)
	}
	return name
}

// writeFindings lists the findings of a kind. Findings that differ only in a part, a percentile or
// the like share a line; those already listed for another kind are skipped.
func writeFindings(b *strings.Builder, k Kind, listed map[string]bool) {
	fmt.Fprintf(b, "\nOf studies of %s:\n\n", k.About())
	overhead := map[string]bool{}
	var names []string
	first := map[string]finding.Def{}
	for _, d := range k.Findings().All() {
		if !reached(d) {
			continue
		}
		name, differs := strings.CutSuffix(d.Name, "_overhead")
		name = generic(name)
		if stem, ok := strings.CutSuffix(name, "_PCT"); ok && first[stem].Name != "" {
			continue // a percentile over changes
		}
		if overhead[name] = overhead[name] || differs; differs {
			continue
		}
		if _, seen := first[name]; !seen {
			names, first[name] = append(names, name), d
		}
	}
	var lines, again []string
	for _, name := range names {
		d, marks := first[name], ""
		if overhead[name] {
			marks = "*"
		}
		if !d.Named() {
			marks += "†"
		}
		doc := d.Doc
		if name != d.Name {
			doc = cmp.Or(d.FamilyDoc, doc)
		}
		doc, _, _ = strings.Cut(Brief(doc), " (")
		doc = strings.TrimSuffix(doc, " for each answered request")
		text := fmt.Sprintf(" (%s): %s\n", d.Unit, doc)
		if listed[name+text] {
			again = append(again, "`"+name+"`")
			continue
		}
		listed[name+text] = true
		if last := len(lines) - 1; last >= 0 && strings.HasSuffix(lines[last], text) {
			lines[last] = strings.TrimSuffix(lines[last], text) + ", `" + name + "`" + marks + text
			continue
		}
		lines = append(lines, "- `"+name+"`"+marks+text)
	}
	b.WriteString(strings.Join(lines, ""))
	if len(again) > 0 {
		b.WriteString("- As above: " + strings.Join(again, ", ") + "\n")
	}
}

const referenceHead = `# Study files

<!-- Made from the program's own tables: make documents -->

A study is a YAML file that asks one question: what varies, what each combination is compared
with, and how long to measure. This one asks for a sidecar's cost at two rates:

    # yaml-language-server: $schema=study.schema.json
    name: my-study
    question: What does a sidecar cost at two rates?
    settings: {connections: 16, payload: 4KiB}
    factors:
      rate: [500, 2000]
      sidecars: [none, both]
    baseline: {sidecars: none}
    window: 2s
    blocks: {min: 4, max: 12, limit: 5m}
    stop: {finding: latency_p50_overhead, half_width: 7.5%, of: {sidecars: both}}

Every combination of levels is a cell. A block is one pass over all cells in random order. Baseline
cells run twice in a block: the difference between the two is the noise floor. Times, sizes and
percentages carry their unit (` + "`250ms`, `1KiB`, `7.5%`" + `).

| command | what it does |
|---|---|
| ` + "`meshtrial study schema > study.schema.json`" + ` | lets editors complete and check studies, and has the full text of each field and factor |
| ` + "`meshtrial study check FILE`" + ` | reports errors and their position |
| ` + "`meshtrial study plan FILE`" + ` | prints cells, comparisons, duration, and levels without effect |
| ` + "`meshtrial study show quick --source`" + ` | prints a shipped study to start from |

` + "`--set path=value`" + ` overrides a part of the file: ` + "`--set window=1s`, `--set blocks.max=6`" + `. A factor
is set by its name alone: ` + "`--set rate=2000`" + ` fixes it, ` + "`--set connections=[8,16]`" + ` varies it.

A factor that varies without effect is an error, unless flags or left-out variants have narrowed the
study down.

`

const referenceSections = `
## Variants

Named sets of levels, instead of every combination:

` + "```yaml" + `
control: {changes: 10}
settings: {proxies: 11, gateways: 2}
variants:
  none: {}
  sidecar: {sidecar_scope: mesh, sidecar_hosts: "istio-system/*,prometheus/*"}
  sidecar-debounce: {sidecar_scope: mesh, sidecar_hosts: "istio-system/*,prometheus/*", debounce_after: 2500ms}
baseline: {variant: none}
` + "```" + `

A variant's levels override the settings. The variants are the levels of a factor ` + "`variant`" + `, which
can be combined with other factors and restricted (` + "`--set variant=[none,sidecar]`" + `).

## Search

` + "`search: [{factor: proxies, finding: convergence_p99, bound: 2 s}]`" + ` finds the highest number of
proxies at which p99 convergence stays within 2 s, for every combination of the other factors, or
with ` + "`at: {change_rate: 2}`" + ` for some. Each block climbs the given levels to the first that breaks the
bound; with ` + "`tolerance: 10%`" + ` the search then halves the gap to the level before until it is within a
tenth.

The finding ` + "`highest_proxies`" + ` has a 95% interval from three blocks on, from the highest level that
certainly holds to the lowest that certainly breaks. If an end is unknown the finding is ` + "`open`" + `
(` + "`high`, `low` or `both`" + `), and an assertion on it fails. Only istiod's own failures break a bound.
In data-plane studies the factor is ` + "`rate`" + `, and ` + "`highest_rate`" + ` is open above if the generator or the
machine saturates first. See [method.md](method.md#searches).

## Bill

` + "`bill`" + ` prices parts of a sidecar one by one ([bill.md](bill.md)):

` + "```yaml" + `
settings: {sidecars: both, mtls: "off"}
bill:
  parts: {text-log: {telemetry: access-log-text}, json-log: {telemetry: access-log-json}, mtls: {mtls: strict}}
  together: [json-log, mtls]
  direct: both
measures: [latency, cpu, memory]
` + "```" + `

It generates the variants ` + "`base`" + `, one for each part over the base, ` + "`together`" + ` (all parts, or those
listed: two levels of one factor exclude each other) and, with ` + "`direct: remove` or `both`" + `,
` + "`without-PART`" + `. Each combination of ` + "`factors`" + ` has its own bill. ` + "`hops: {}`" + ` breaks down the cost of a
request through two sidecars in the same way.

## Money

` + "`money: {rps: 1000000, proxies: 2000, core_month: 40, gb_month: 4}`" + ` describes a mesh and its
prices; findings report what its proxies would need and cost at a trial's use. A call passes
` + "`proxies_per_hop`" + ` sidecars, each an average proxy of the cell. Where pods share a proxy, a call costs
what all proxies on its path took, and [sizing](#sizing) prices their memory. If the rate varies and
` + "`proxies`" + ` is given, ` + "`money_cpu_fit`" + ` does not depend on the measured rate.

## Sizing

` + "`sizing: {pods: 1000, nodes: 50, rps: 20000, l7: 20%, waypoints: 10}`" + ` describes a mesh. The report
begins with which way of carrying its requests takes less CPU and memory: sidecars, ztunnel, or
ztunnel with waypoints for the L7 share. The study needs cells of each way at two or more rates
(` + "`sidecars: [none, both, ambient]`, `rate: [20, 200, 1000]`" + `), from a sidecar's typical load to a node
proxy's.

A graph without steps can be sized too: with ` + "`replicas: [1, 5, 10]`" + ` instead of rates, sizing reports
what each pod adds in a mesh without requests (` + "`rps: 0`" + `) and waypoints. With prices
(` + "`money: {core_month: 40, gb_month: 4}`" + `) the report also compares cost (` + "`sized_month`" + `).

` + "`meshtrial report RUN --set sizing.pods=200`" + ` applies another mesh or other prices to a finished run;
` + "`--set sizing=none` and `--set money=none`" + ` omit the sections.
`

const referenceFindings = `
## Findings

Names for ` + "`stop`, `published`, `search` and `assert`" + `. Those with † belong to a whole run, for
` + "`assert`" + ` only. Those with * have a second name ending in ` + "`_overhead`" + `: the difference to the baseline.
PART is a part of the request path or of the machine (` + "`client_proxy`, `node_proxy`, `worker`" + `,
` + "`control_plane`, `machine`" + ` and so on), PCT a percentile or ` + "`max`" + `, TYPE an xDS type, THING a connection,
cluster, listener or route; TERM and MEASURE are those of hops. ` + "`...`" + ` depends on the run. Each
` + "`bill_...` also exists as `saved_...`" + `, each ` + "`sidecar_...` as `envoy_...` and `agent_...`" + `, and each
` + "`attached_...` as `attached_..._since_first`" + `. Not every combination exists; the schema has all names.
`
