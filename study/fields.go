package study

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/invopop/jsonschema"

	"github.com/meshtrial/meshtrial/internal/lazyregexp"
	"github.com/meshtrial/meshtrial/record"
)

var (
	reName     = lazyregexp.New(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	reToken    = lazyregexp.New("^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,256}$")
	rePath     = lazyregexp.New(`^/[\x21-\x7e]*$`)
	reCurrency = lazyregexp.New(`^[A-Za-z]{1,8}$`)
	// A method as RFC 9110 spells the registered ones; CONNECT carries none.
	reMethod = lazyregexp.New(`^(GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS)$`)
)

// nameHint says what is a valid name.
const nameHint = "use lower-case letters, digits and dashes"

// root is the study file: every field, where it goes, and what it means.
// Parsing, resolved.yaml and the JSON Schema all follow it.
func root(s *Study) object {
	o := object{name: "the study", fields: []field{
		{name: "name", required: true, doc: "Short name, also used for its runs: lower-case letters, digits and dashes.",
			value: textValue{to: &s.Name, pattern: reName, noun: "name", hint: nameHint + ", as two-pod-latency"}},
		{name: "kind", doc: "What a trial of the study does: send requests (data-plane), change configuration (control-plane), or break things (resilience). If left out: control-plane with the section control, resilience with the section timeline, data-plane with neither.",
			value: textValue{to: (*string)(&s.Kind), oneOf: kindNames()}},
		{name: "title", doc: "Heading of the report; the name if left out.", value: textValue{to: &s.Title}},
		{name: "question", required: true, doc: "The one question the study asks, in words.", value: textValue{to: &s.Question}},
		{name: "story", doc: "Prose for the report: the background of the question, and what to look at.", value: textValue{to: &s.Story}},
		{name: "mesh", doc: "The mesh that injects sidecars.", value: textValue{to: &s.Mesh, oneOf: Meshes()}},
		{name: "settings", doc: "Levels of factors that do not vary. A factor in neither settings nor factors has its default.",
			value: cellValue{to: &s.Settings, name: "settings"}},
		{name: "factors", doc: "What varies: every combination of levels is a cell, in the order given here.", value: factorsValue{&s.Factors}},
		{name: "variants", doc: "Named sets of levels of several factors, which override the settings: the levels of a factor called variant. It takes all of them unless settings or factors name some.",
			value: variantsValue{to: &s.Variants, made: s.made()}},
		{name: "bill", kinds: only(DataPlane), doc: "Prices named parts of a sidecar: each alone over a base, and all together. It generates the variants base, one by the name of each part, together, and without-PART.",
			value: billSection(&s.Bill)},
		{name: "hops", kinds: only(DataPlane), doc: "Splits the cost of a request into the path without sidecars, the client's and the server's sidecar, TLS and redirection, by cells that leave one out; {} takes every default. It generates the variants bare, client, server, both, tls and redirect.",
			value: hopsSection(&s.Hops)},
		{name: "baseline", doc: "Levels that turn a cell into the one it is compared with. If left out: {sidecars: none} if that varies, or the first of the variants that are measured. {} compares nothing.",
			value: cellValue{to: &s.Baseline, name: "baseline", empty: true}},
		{name: "exclude", doc: "Combinations of levels to leave out.",
			value: listValue[record.Cell]{to: &s.Exclude, element: func(c *record.Cell) value { return cellValue{to: c, name: "exclude"} }}},
		{name: "envoy_filters", kinds: only(DataPlane), doc: "Your own EnvoyFilters for the factor filters, as {mine: mine.yaml}: the files, relative to the study.", value: envoyFiltersValue{&s.EnvoyFilters}},
		{name: "control", doc: "Makes this a study of the control plane, with its own factors: changes are made and followed to every proxy. {} takes every default.",
			value: controlValue{s}},
		{name: "workload", kinds: only(DataPlane), doc: "What the worker does with each request.", value: workload(&s.Workload)},
		{name: "load", kinds: using("load"), doc: "How requests are sent.", value: object{name: "load", fields: []field{
			{name: "timeout", doc: "Request timeout.", value: durationValue{to: &s.Load.Timeout, low: time.Millisecond, high: 10 * time.Minute}},
			{name: "method", doc: "HTTP method. If left out: POST with a payload, GET without.", value: textValue{to: &s.Load.Method, pattern: reMethod, noun: "method", hint: "use GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS"}},
			{name: "path", doc: "Path of HTTP requests.", value: textValue{to: &s.Load.Path, pattern: rePath, noun: "path", hint: "begin with /, without blanks"}},
			{name: "headers", doc: "Additional headers of HTTP requests. Their values are kept in plain text wherever the study is: in run directories, and in a ConfigMap of a detached run.", value: headersValue{&s.Load.Headers}},
			{name: "tls", doc: "Whether the generator itself speaks TLS to the worker, in addition to the mesh.", value: boolValue{&s.Load.TLS}},
		}}},
		{name: "warmup", kinds: using("warmup"), doc: "Time before a trial's window: until latency and CPU are steady, within these bounds.", value: object{name: "warmup", flow: true, fields: []field{
			{name: "min", doc: "Shortest warm-up.", value: durationValue{to: &s.Warmup.Min, high: time.Hour}},
			{name: "max", doc: "Longest warm-up; a trial that is not steady by then is marked.", value: durationValue{to: &s.Warmup.Max, high: time.Hour}},
		}}},
		{name: "window", kinds: only(DataPlane), doc: "How long a trial measures: a whole number of intervals.", value: durationValue{to: &s.Window, low: 100 * time.Millisecond, high: time.Hour}},
		{name: "interval", kinds: only(DataPlane), doc: "Reporting interval of the generator.", value: durationValue{to: &s.Interval, low: 50 * time.Millisecond, high: time.Minute}},
		{name: "blocks", doc: "Passes over all cells, each in random order.", value: object{name: "blocks", flow: true, fields: []field{
			{name: "min", doc: "Minimum number of blocks; the stop rule applies from here on.", value: intValue{&s.Blocks.Min, 1, 10_000}},
			{name: "max", doc: "Maximum number of blocks.", value: intValue{&s.Blocks.Max, 1, 10_000}},
			{name: "limit", doc: "Time limit for all blocks: no block starts that would exceed it, judging by the longest so far, and the first always runs. In a search or a tuning this applies to each trial.", value: durationValue{to: &s.Blocks.Limit, low: time.Second}},
			{name: "redeploy", kinds: only(DataPlane), doc: "Number of blocks that one set of pods serves before all are made anew; 0 for the whole run.", value: intValue{&s.Blocks.Redeploy, 0, 10_000}},
		}}},
		{name: "stop", doc: "Ends the run before blocks.max once an interval is narrow enough; none for no such rule.", value: stopValue{&s.Stop}},
		{name: "margin", doc: "Largest difference from the baseline, as a share of its value, that does not matter: no effect is claimed where a whole interval lies within it. In a soak, the growth per hour that does not matter.", value: ratioValue{&s.Margin}},
		{name: "seed", doc: "Orders the blocks and spreads arrivals. 0: chosen when the run starts, and recorded.", value: seedValue{&s.Seed}},
		{name: "measures", doc: "What to record; if left out, everything except signals, which scrapes istiod within the window, sidecars, for which a study of the control plane makes its real pods anew in each trial, and profile, which takes extra time.",
			value: listValue[string]{to: &s.Measures, least: 1, flow: true, element: func(m *string) value { return measureValue{m} }}},
		{name: "search", doc: "Finds the highest level of a factor at which a finding meets a bound; levels increase, and those above one that breaks the bound need not be measured.",
			value: listValue[Search]{to: &s.Search, element: search}},
		{name: "tune", kinds: only(ControlPlane), doc: "Looks for the best setting of the levers that vary, without measuring every cell: the next cells follow from the trials so far. The recommended one is compared with the setting in use, the baseline, in blocks of their own.",
			value: tuneSection(&s.Tune)},
		{name: "assert", doc: "CEL expressions over the findings that must hold.",
			value: listValue[Expr]{to: &s.Assert, element: func(e *Expr) value { return exprValue{e} }}},
		{name: "money", doc: "A mesh and its prices: reports what its proxies would cost per month. {} is a million requests per second, two proxies per hop, 40 USD per core.",
			value: moneySection(&s.Money)},
		{name: "sizing", kinds: using("sizing"), doc: "A mesh in which ways of carrying requests (sidecars, ambient, waypoints) are set side by side: reports which takes less CPU and memory, and where the border lies. {} takes every default.",
			value: sizingSection(&s.Sizing)},
		{name: "profile", kinds: only(DataPlane), doc: "How to profile: after each trial's window, while the same load runs once more.",
			value: profileValue{&s.Profile}},
		{name: "published", doc: "Published figures to compare with the measured ones.",
			value: listValue[Published]{to: &s.Published, element: published}},
	}}
	for _, k := range Kinds() {
		spec := k.spec()
		if spec.fields == nil {
			continue
		}
		section := s.Section
		if k != s.Kind { // described, and complained of
			section = spec.newSection()
		}
		for _, f := range spec.fields(section) {
			f.field.kinds = only(k)
			o.place(f)
		}
	}
	return o
}

// using are the kinds whose studies have a field that several kinds have.
func using(name string) []Kind {
	return slices.DeleteFunc(Kinds(), func(k Kind) bool { return !has(k.spec().Uses, name) })
}

func workload(w *Workload) object {
	t := &w.ServiceTime
	return object{name: "workload", fields: []field{
		{name: "response", doc: "Response body size; echo returns the request's body. TCP always echoes.", value: responseValue{&w.Response}},
		{name: "service_time", doc: "Service time of the worker.", value: timeObject(&t.Distribution, &t.Mean, &t.Sigma, &t.Values,
			field{name: "file", doc: "File of recorded times next to the study, one duration per line (recorded).", value: textValue{to: &t.File}})},
	}}
}

// timeObject is a distribution of service times.
func timeObject(distribution *string, mean *time.Duration, sigma *float64, values *[]time.Duration, more ...field) object {
	return object{name: "service_time", flow: true, fields: append([]field{
		{name: "distribution", doc: "Distribution of the times.", value: textValue{to: distribution,
			oneOf: []string{DistributionFixed, DistributionExponential, DistributionLognormal, DistributionRecorded}}},
		{name: "mean", doc: "Mean of the distribution (not for recorded).", value: durationValue{to: mean, high: time.Minute, omitZero: true}},
		{name: "sigma", doc: "Standard deviation of the time's natural logarithm (lognormal).", value: floatValue{to: sigma, high: 5, omitZero: true}},
		{name: "values", doc: "Recorded times, drawn from at random (recorded).", value: listValue[time.Duration]{to: values, least: 1, flow: true,
			element: func(v *time.Duration) value { return durationValue{to: v, high: time.Minute} }}},
	}, more...)}
}

func published(p *Published) value {
	return object{name: "a published figure", fields: []field{
		{name: "source", required: true, doc: "Where it was published.", value: textValue{to: &p.Source}},
		{name: "claim", required: true, doc: "What was said, in words.", value: textValue{to: &p.Claim}},
		{name: "finding", required: true, doc: "The finding to compare it with.", value: findingValue{&p.Finding}},
		{name: "cell", required: true, doc: "The cell it is about.", value: cellValue{to: &p.Cell, name: "cell"}},
		{name: "figure", required: true, doc: "The figure.", value: floatValue{to: &p.Figure, high: 1e18}},
		{name: "unit", required: true, doc: "Its unit, as the finding has it or as one counts in it: us, ms or s; us/request or ms/request; bytes, kB, MB, KiB or MiB; pushes.", value: textValue{to: &p.Unit}},
	}}
}

// findingValue is the name of a finding of the study's kind.
type findingValue struct{ to *string }

func (v findingValue) decode(d *decoder, n *node) {
	decodeName(d, n, v.to, Kind.FindingNames)
}

func (v findingValue) encode() *node { return textNode(*v.to) }

func (v findingValue) schema() *jsonschema.Schema { return textValue{oneOf: FindingNames()}.schema() }

// measureValue is the name of a measure of the study's kind.
type measureValue struct{ to *string }

func (v measureValue) decode(d *decoder, n *node) { decodeName(d, n, v.to, Kind.Measures) }

func (v measureValue) encode() *node { return textNode(*v.to) }

func (v measureValue) schema() *jsonschema.Schema {
	var all []string
	for _, p := range Kinds() {
		for _, m := range p.Measures() {
			if !has(all, m) {
				all = append(all, m)
			}
		}
	}
	return textValue{oneOf: all}.schema()
}

// decodeName reads one of a kind's names, and knows those of the others.
func decodeName(d *decoder, n *node, to *string, names func(Kind) []string) {
	if name := strings.TrimSpace(n.text); n.kind == scalar && !has(names(d.kind), name) {
		for _, other := range Kinds() {
			if has(names(other), name) {
				d.complain(n.pos, foreign(fmt.Sprintf("%q", name), other, d.kind))
				return
			}
		}
	}
	textValue{to: to, oneOf: names(d.kind)}.decode(d, n)
}
