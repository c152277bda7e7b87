package study

import (
	"fmt"
	"strings"

	"github.com/meshtrial/meshtrial/record/finding"
)

// Reference returns the documentation of study files in Markdown, made from
// the same tables as the parser: docs/study.md.
func Reference() string {
	var b strings.Builder
	b.WriteString(referenceHead)
	b.WriteString("## Fields\n\n")
	s := defaults()
	writeFields(&b, root(s), "")
	b.WriteString("\n## Measures\n\n| studies of | names for `measures` |\n|---|---|\n")
	for _, p := range Kinds() {
		fmt.Fprintf(&b, "| %s | `%s` |\n", p.About(), strings.Join(p.Measures(), "`, `"))
	}
	b.WriteString("\n## Factors\n\n")
	writeFactors(&b, dataFactors)
	writeParts(&b)
	b.WriteString(referenceData)
	b.WriteString("\n## Factors of the control plane\n\n")
	writeFactors(&b, controlFactors)
	b.WriteString(referenceControl)
	b.WriteString("\n## Factors of resilience\n\n")
	writeFactors(&b, scenarioFactors)
	b.WriteString(referenceResilience)
	b.WriteString(referenceSections)
	b.WriteString(referenceFindings)
	for _, p := range Kinds() {
		writeFindings(&b, p)
	}
	return b.String()
}

func writeFindings(b *strings.Builder, p Kind) {
	fmt.Fprintf(b, "\nOf studies of %s:\n\n| finding | what it is | unit |\n|---|---|---|\n", p.About())
	var run []finding.Def
	for _, d := range p.Findings().All() {
		if !reached(d) {
			continue
		}
		if d.Named() {
			fmt.Fprintf(b, "| `%s` | %s | %s |\n", d.Name, d.Doc, d.Unit)
		} else {
			run = append(run, d)
		}
	}
	b.WriteString("\nOf a run, for `assert` alone:\n\n| finding | what it is | unit |\n|---|---|---|\n")
	for _, d := range run {
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", strings.Replace(d.Name, "*", "...", 1), d.Doc, d.Unit)
	}
}

func writeFactors(b *strings.Builder, table []Factor) {
	b.WriteString("| factor | what it is | levels | default |\n|---|---|---|---|\n")
	for _, f := range table {
		levels := strings.Join(f.Levels, ", ")
		if f.Levels == nil {
			levels = "as " + strings.Join(f.Examples, ", ")
		}
		if f.Unit != "" {
			levels += " (" + f.Unit + ")"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", f.Name, strings.ReplaceAll(f.Doc, "|", "\\|"), strings.ReplaceAll(levels, "|", "\\|"), f.defaultWords())
	}
}

// writeFields lists the fields of an object and of those below it.
func writeFields(b *strings.Builder, o object, prefix string) {
	if prefix == "" {
		b.WriteString("| field | what it means | default |\n|---|---|---|\n")
	}
	for _, f := range o.fields {
		def := ""
		switch v := f.value.(type) {
		case object, factorsValue, cellValue, controlValue:
		case stopValue:
			def = "none"
		default:
			if n := v.encode(); n != nil && n.kind == scalar {
				def = n.text
			}
		}
		if f.required {
			def = "required"
		}
		fmt.Fprintf(b, "| `%s%s` | %s | %s |\n", prefix, f.name, f.doc, def)
		switch v := f.value.(type) {
		case object:
			writeFields(b, v, prefix+f.name+".")
		case controlValue:
			writeFields(b, v.section(), prefix+f.name+".")
		case trafficValue:
			writeFields(b, v.section(), prefix+f.name+".")
		case gatewayValue:
			writeFields(b, v.section(), prefix+f.name+".")
		case tuneValue:
			t := defaultTune()
			writeFields(b, v.object(&t), prefix+f.name+".")
		case stopValue:
			writeFields(b, v.object(&Stop{}), prefix+f.name+".")
		case interface{ presets() object }: // what the study states
			writeFields(b, v.presets(), prefix+f.name+".")
		case profileValue:
			p := DefaultProfiling()
			writeFields(b, v.object(&p), prefix+f.name+".")
		case listValue[Search]:
			if inner, ok := v.element(&Search{}).(object); ok {
				writeFields(b, inner, prefix+f.name+"[].")
			}
		case billValue:
			writeFields(b, v.object(&Bill{}), prefix+f.name+".")
		case hopsValue:
			writeFields(b, v.object(&Hops{Interception: true}), prefix+f.name+".")
		case listValue[Published]:
			if inner, ok := v.element(&Published{}).(object); ok {
				writeFields(b, inner, prefix+f.name+"[].")
			}
		}
	}
}

const referenceHead = `# Study files

<!-- Made from the program's own tables: make documents -->

A study is a YAML file that asks one question: what varies, what each
combination is compared with, and how long to measure. This one asks for a
sidecar's cost at two rates:

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

- ` + "`meshtrial study schema > study.schema.json`" + ` gives editors what they need to complete and
  check a study.
- ` + "`meshtrial study check FILE`" + ` says what is wrong and where.
- ` + "`meshtrial study plan FILE`" + ` prints the cells, what each is compared with, what the lab must
  have, and the time it takes.
- ` + "`meshtrial study show quick --source`" + ` prints a shipped study as a template for your own.

Every combination of levels is a cell. A block is one pass over all cells in random order.
Baseline cells run twice in a block: the difference between the two is the noise floor. The
same seed gives the same order.

Times, sizes and percentages carry their unit (` + "`250ms`, `1KiB`, `7.5%`" + `). A fault is reported
with its position, and nothing is started.

` + "`--set path=value`" + ` overrides a part of the file: ` + "`--set window=1s`, `--set blocks.max=6`" + `. A
factor is set by its name alone, whichever it was before: ` + "`--set rate=2000`" + ` fixes it to a
level, ` + "`--set connections=[8,16]`" + ` varies it.

Levels without effect are reported:

- ` + "`meshtrial study plan`" + ` and runs say where a flag changes nothing, as with a factor that every
  variant sets, and where no cell has the flag's level.
- They and ` + "`meshtrial study check`" + ` say which levels of the file mean nothing in any cell, not
  even in those of a variant that is left out.
- A factor that varies but means nothing in any cell is refused, because the study would not
  answer what it asks. It is not refused if flags have left out the cells or variants in which
  it means something.

`

const referenceData = `
A factor that does not apply in a cell is recorded as ` + "`-`" + `: the proxies' settings where no pod
has a sidecar, ` + "`mtls`" + ` where the server has none, ` + "`arrival`" + ` at rate ` + "`max`" + `. Cells that differ
only in such a factor are one cell, measured once.

Strict mutual TLS cannot serve a client without a sidecar. Such a cell (` + "`sidecars: server`" + `) is
recorded as the ` + "`permissive`" + ` that it is, and refused if ` + "`mtls`" + ` itself varies.
`

const referenceControl = `
A study is one of the control plane if it has the section ` + "`control`, be it `{}`" + `. It has these
factors and no others, and the fields ` + "`workload`, `load`, `warmup`, `window` and `interval`" + `
have no place in it. Some factors mean nothing in some cells:

| factor | means nothing |
|---|---|
| ` + "`sidecar_hosts`" + ` | without a Sidecar resource |
| ` + "`endpoints`" + ` | without Services |
| ` + "`slice_namespaces`" + ` | without EndpointSlices |
| ` + "`xds`, `clients`" + ` | without simulated proxies |
| ` + "`change_rate`, `change_arrival`" + ` | where a trace says when |

The factors from ` + "`sidecar_scope`" + ` on are levers: settings of istiod and of the mesh. The default
of each is ` + "`installed`" + `, which leaves a lever as the mesh was installed. Trials set only levers
that a study gives another level; the run puts them back when it ends. What the other levers
were is read from the running istiod and kept in the record. Before anything runs, the plan
and its warnings assume istiod's own levels for them. Levels that mean what istiod has built
in (` + "`push_throttle: default`, `debounce_after: 100ms`" + `) are set like any other.
`

const referenceResilience = `
A study is one of resilience if it has the section ` + "`timeline`" + `. It has these factors and no
others, and the fields ` + "`workload`, `window` and `interval`" + ` have no place in it.
[scenarios.md](scenarios.md) says what stands in ` + "`graph` and `timeline`" + `.

A mesh's levers mean nothing without a mesh. None is set where ztunnel or a waypoint carries the
requests (` + "`sidecars: ambient`, `waypoint`" + `): ztunnel has no levers, and a waypoint does what Istio
does by default, retries included. ` + "`meshtrial study plan`" + ` says where such a cell is compared
with one that has levers. If the timeline has steps, the retries that Istio's sidecars make by
default count as a lever beside ztunnel. ` + "`retry_on` and `per_try_timeout`" + ` mean nothing where
` + "`retries`" + ` is off.
`

const referenceSections = `
## Variants

Where a study compares a few settings by name rather than every combination, it
lists them:

` + "```yaml" + `
control: {changes: 10}
settings: {proxies: 11, gateways: 2}
variants:
  none: {}
  sidecar: {sidecar_scope: mesh, sidecar_hosts: "istio-system/*,prometheus/*", outbound_policy: REGISTRY_ONLY}
  sidecar-debounce: {sidecar_scope: mesh, sidecar_hosts: "istio-system/*,prometheus/*", outbound_policy: REGISTRY_ONLY, debounce_after: 2500ms}
baseline: {variant: none}
` + "```" + `

A variant's levels override the settings. The variants are the levels of a factor called
` + "`variant`" + `. It can be combined with other factors, narrowed down
(` + "`--set variant=[none,sidecar]`" + `) and named wherever cells are. When variants are left out, a
factor that only they set can be varied, and what they alone need, such as a gateway or
recorded changes, may stay. Studies of all kinds can have variants.

## Search

` + "`search: [{factor: proxies, finding: convergence_p99, bound: 2 s}]`" + ` asks for the
highest number of proxies at which p99 convergence stays within 2 s, for every
combination of the other factors. Each block climbs the given levels to the first that
breaks the bound; higher ones need not be measured.

With ` + "`tolerance: 10%`" + ` the search goes on between the last level that held and the first that
broke. It halves their interval by the geometric mean until they are within a tenth of each
other. Later blocks measure the levels on both sides of the limit again, until each side is
sure. Where these levels are too near the bound to tell, later blocks also measure levels
further out.

The finding ` + "`highest_proxies`" + ` has a 95% interval, from the highest level that holds for sure to
the lowest that breaks for sure. Its estimate is the highest level that held on balance. An end
may not be known, as when every level holds. Then the finding has ` + "`open` (`high`, `low`" + ` or
` + "`both`" + `), reports say "or more" or "below", and an assertion on an upper end that is open fails.

The interval needs three blocks or more. Two leave it wide, with one open end in a third of all
runs or more; a single block gives none. Of ` + "`blocks`, `max`" + ` bounds how far a search goes, and
the run ends when every search has its answer. See [method.md](method.md#searches).

Only istiod's own failures break a bound: the finding exceeds it, changes never arrived or were
never acknowledged, or istiod's own failure made the trial invalid. A level without a valid
trial for any other reason says nothing.

In studies of the data plane the factor is ` + "`rate`" + `, as in
` + "`search: [{factor: rate, finding: latency_p99, bound: 10 ms, tolerance: 15%}]`" + `, with levels that
double. A rate breaks the bound only because of the sidecars. If the generator or the machine
saturates first, or if the same load exceeds the bound without sidecars, the finding
` + "`highest_rate`" + ` ends at the highest level that surely holds. It is then open above, and
inconclusive.

Such studies also have ` + "`knee_rate`" + `: the highest rate at which p99 latency stays within twice its
value at the lowest rate, by medians over blocks. Rates at which the generator or the machine
gave out do not end it.

` + "`at: {change_rate: 2}`" + ` confines a search to some levels of the other factors, so
that two searches need not measure all combinations:

` + "```yaml" + `
control: {}
factors:
  proxies: [250, 500, 1000, 2000]
  change_rate: [2, 8, 32]
search:
  - {factor: proxies, finding: convergence_p99, bound: 2 s, at: {change_rate: 2}, tolerance: 25%}
  - {factor: change_rate, finding: convergence_p99, bound: 2 s, at: {proxies: 250}, tolerance: 50%}
` + "```" + `

## Bill

` + "`bill`" + ` prices the parts of a sidecar, one by one:

` + "```yaml" + `
settings: {sidecars: both, mtls: "off"}
bill:
  parts: {text-log: {telemetry: access-log-text}, json-log: {telemetry: access-log-json}, mtls: {mtls: strict}}
  together: [json-log, mtls]
  direct: both
measures: [latency, cpu, memory]
` + "```" + `

It generates variants:

- ` + "`base`" + `;
- one of each part over the base;
- ` + "`together`" + `: all parts, or those named in ` + "`together`" + `, which must name them where two parts are
  levels of one factor;
- with ` + "`direct: remove` or `both`, one `without-PART`" + ` for each part of ` + "`together`" + `.

Factors in ` + "`factors`" + ` vary beside the variants: there is one bill for each of their combinations.
All figures are within-block differences, with Student's t over blocks. The intervals of a bill
are simultaneous at 95%, so that of many parts none looks expensive by chance.

Each part gets CPU and latency per request, memory, its share of the CPU of the proxies that have
it (` + "`bill_cpu`, `bill_cpu_client_proxy`, `bill_latency_p50`, `bill_memory`, `bill_share`" + `..., and
` + "`bill_money`" + ` with the section money), and a rank. Parts that cannot be ranked share one.
` + "`bill_sum`" + ` is the sum of the parts that are on together, ` + "`bill_interaction`" + ` what all together
cost beyond it. The saving from removing a part is reported only if it was measured, by
` + "`saved_cpu`" + ` and the like.

## Hops

` + "`hops: {}`" + ` splits the cost of a request through two sidecars: the path without any, the client's
and the server's sidecar in plain text, mutual TLS between them, and the redirection of
connections to them. It generates variants, each of which adds one element (` + "`bare`, `client`" + `,
` + "`server`, `both`, `tls`, `redirect`" + `). Each term is a difference of two variants within blocks
(` + "`hop_client_proxy_latency_p50`" + ` and the like). The residual (` + "`hop_residual_`" + `...) is reported
with the terms, with its interval.

## Money

` + "`money: {rps: 1000000, proxies: 2000, core_month: 40, gb_month: 4}`" + ` states a mesh and its prices.
Findings then say what the mesh's proxies would need and cost if each request used as much of
them as in a trial: ` + "`money_cores`, `money_cpu`, `money_memory` and `money_month`" + `, each with its
interval, and with ` + "`_overhead`" + ` what a cell costs or saves against its baseline.

- **Sidecars.** Each of the mesh's proxies counts as an average proxy of the cell, whether the
  cell has them at both ends of a call or at one. ` + "`proxies_per_hop`" + ` says how many each call
  passes.
- **Proxies that pods share** (ztunnel, a waypoint, a gateway). A call costs what it took of all
  that it passed, whatever ` + "`proxies_per_hop`" + ` says. Their memory has no price here, because the
  mesh does not say how many there are; section [sizing](#sizing) prices it.

Where the rate varies and ` + "`proxies`" + ` is given, ` + "`money_cpu_fit`" + ` prices each request at the slope and
each proxy at what the line has without requests, so that the measured rate does not matter. What
a mesh costs beyond its proxies (interrupts, the control plane) is not included.

## Sizing

` + "`sizing: {pods: 1000, nodes: 50, rps: 20000, l7: 20%, waypoints: 10}`" + ` states a mesh. The report
then begins with which way of carrying the mesh's requests takes less CPU and memory: sidecars in
pods, ztunnel on nodes, or ztunnel with waypoints for the share of requests that need L7. Its
section *Where each wins* has the figures.

The study needs cells of each way at two rates or more (` + "`sidecars: [none, both, ambient]`" + `,
` + "`rate: [20, 200, 1000]`" + `). Each proxy of the stated mesh takes what was measured at the rate that it
would carry there, on straight lines between a block's rates. So let the rates reach from what a
sidecar of your mesh carries to what a node's proxy does. Two ways are compared inside blocks. The
border between them is looked for along the requests per second of each pod, the pods on each node
and the share of L7, with the others as stated.

A graph of services in which nothing happens can be sized too, with ` + "`mesh: [none, istio, linkerd]`" + `
beside it. A request is then a call between two of its services. With ` + "`replicas: [1, 5, 10]`" + ` in
place of rates, sizing tells what each pod adds, of a mesh without requests (` + "`rps: 0`" + `) and without
waypoints.

| flag | what it does |
|---|---|
| ` + "`meshtrial report RUN --set sizing.pods=200`" + ` | states another mesh of a run that was made |
| ` + "`--set sizing=none`" + ` | leaves the section out, so that one rate will do |
| ` + "`--set money=none`" + ` | leaves out section money, and published figures in money; a flag that sets another currency leaves out the latter |

With the prices of a core and of a gigabyte beside it (` + "`money: {core_month: 40, gb_month: 4}`" + `) the
report says first which way costs less, CPU and memory together (` + "`sized_month`" + `). Only the prices,
` + "`utilisation` and `currency`" + ` of section money count there: the mesh is that of ` + "`sizing`" + `. The
findings of section money appear beside it only if that section states a mesh of its own (` + "`rps`" + `,
` + "`hops`, `proxies_per_hop` or `proxies`" + `).
` + "`meshtrial report RUN --set money.core_month=25 --set money.gb_month=3`" + ` prices a run that was made.

## When changes come

` + "`change_rate`" + ` is a number of changes per second, or a schedule as the load generator's flags have
it: ` + "`ramp:1:20:30s`" + ` goes evenly from 1 to 20 per second in 30 s, ` + "`steps:1:10s,8:5s,1:10s`" + ` holds
one rate after the other. The last rate stays.

` + "`change_arrival: burst:10`" + ` makes changes in bursts of ten at once, as often as gives the rate on
the whole; ` + "`burst`" + ` makes all at once. Recorded changes come from ` + "`control.trace`" + ` or from a file
beside the study, with ` + "`change: trace`" + `.
`

const referenceFindings = `
## Findings

Names for ` + "`stop`, `published`, `search` and `assert`" + `. In names that end in
` + "`...`" + ` a run says what follows.
`
