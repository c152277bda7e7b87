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
	// NamePattern matches RFC 1123 labels, the form of namespace, study and variant names.
	NamePattern = lazyregexp.New(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	reToken     = lazyregexp.New("^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,256}$")
	rePath      = lazyregexp.New(`^/[\x21-\x7e]*$`)
	reCurrency  = lazyregexp.New(`^[A-Za-z]{1,8}$`)
	// reMethod matches the registered methods of RFC 9110, except CONNECT, which carries no
	// content.
	reMethod = lazyregexp.New(`^(GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS)$`)
)

// NameHint describes a valid name.
const NameHint = "use lower-case letters, digits and dashes"

// NamespaceHint describes a valid namespace name.
const NamespaceHint = NameHint + ", as test-1"

// root describes the study file: every field, its destination and its meaning. The parser,
// resolved.yaml and the JSON Schema are derived from it.
func root(s *Study) Object {
	o := Object{Name: "the study", Fields: []Field{
		{Name: "name", Required: true, Doc: "Short name, also of its runs: lower-case letters, digits and dashes.",
			Value: Named(&s.Name, NamePattern, "name", NameHint+", as two-pod-latency")},
		{Name: "kind", Doc: "What a trial of the study does: send requests (data-plane), change configuration (control-plane), or break things (resilience). If left out: control-plane with the section control, resilience with the section timeline, data-plane with neither.",
			Value: OneOf((*string)(&s.Kind), kindNames()...)},
		{Name: "title", Doc: "Heading of the report; the name if left out.", Value: Prose(&s.Title)},
		{Name: "question", Required: true, Doc: "The one question the study asks, in words.", Value: Prose(&s.Question)},
		{Name: "story", Doc: "Text for the report: the background of the question, and what to look at.", Value: Prose(&s.Story)},
		{Name: "mesh", Doc: "The mesh that injects sidecars.", Value: OneOf(&s.Mesh, Meshes()...)},
		{Name: "settings", Doc: "Levels of factors that do not vary. A factor in neither settings nor factors has its default.",
			Value: CellValue{To: &s.Settings, Name: "settings"}},
		{Name: "factors", Doc: "What varies: every combination of levels is a cell, in the order given here.", Value: factorsValue{&s.Factors}},
		{Name: "variants", Doc: "Named sets of levels of several factors, which override the settings: the levels of a factor called variant. It takes all of them unless settings or factors name some.",
			Value: VariantsValue{To: &s.Variants, made: s.Made}},
		{Name: "baseline", Doc: "Levels that turn a cell into the one it is compared with. If left out: {sidecars: none} if that varies, or the first of the variants that are measured. {} compares nothing.",
			Value: CellValue{To: &s.Baseline, Name: "baseline", Empty: true}},
		{Name: "exclude", Doc: "Combinations of levels to leave out.",
			Value: ListValue[record.Cell]{To: &s.Exclude, Element: func(c *record.Cell) Value { return CellValue{To: c, Name: "exclude"} }}},
		{Name: "load", kinds: using("load"), Doc: "How requests are sent.", Value: Object{Name: "load", Fields: []Field{
			{Name: "timeout", Doc: "Request timeout.", Value: Duration(&s.Load.Timeout, time.Millisecond, 10*time.Minute)},
			{Name: "method", Doc: "HTTP method. If left out: POST with a payload, GET without.", Value: Named(&s.Load.Method, reMethod, "method", "use GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS")},
			{Name: "path", Doc: "Path of HTTP requests.", Value: Named(&s.Load.Path, rePath, "path", "begin with /, without blanks")},
			{Name: "headers", Doc: "Additional headers of HTTP requests. Their values are kept in plain text wherever the study is: in run directories, and in a ConfigMap of a detached run.", Value: headersValue{&s.Load.Headers}},
			{Name: "tls", Doc: "Whether the generator itself speaks TLS to the worker, in addition to the mesh.", Value: Bool(&s.Load.TLS)},
		}}},
		{Name: "warmup", kinds: using("warmup"), Doc: "Time before a trial's window: until latency and CPU are steady, within these bounds.", Value: Object{Name: "warmup", Flow: true, Fields: []Field{
			{Name: "min", Doc: "Shortest warm-up.", Value: Duration(&s.Warmup.Min, 0, time.Hour)},
			{Name: "max", Doc: "Longest warm-up; a trial that is not steady by then is marked.", Value: Duration(&s.Warmup.Max, 0, time.Hour)},
		}}},
		{Name: "blocks", Doc: "Passes over all cells, each in random order.", Value: Object{Name: "blocks", Flow: true, Fields: []Field{
			{Name: "min", Doc: "Minimum number of blocks; the stop rule applies from here on.", Value: Int(&s.Blocks.Min, 1, 10_000)},
			{Name: "max", Doc: "Maximum number of blocks.", Value: Int(&s.Blocks.Max, 1, 10_000)},
			{Name: "limit", Doc: "Time limit for all blocks: no block starts that would exceed it, judging by the longest so far, and the first always runs. In a search or a tuning this applies to each trial.", Value: Duration(&s.Blocks.Limit, time.Second, 0)},
			{Name: "redeploy", kinds: only(DataPlane), Doc: "Number of blocks that one set of pods serves before all are recreated; 0 for the whole run.", Value: Int(&s.Blocks.Redeploy, 0, 10_000)},
		}}},
		{Name: "stop", Doc: "Ends the run before blocks.max once an interval is narrow enough; none for no such rule.", Value: stopValue{&s.Stop}},
		{Name: "margin", Doc: "Largest difference that does not matter, as a share of the baseline: no effect is claimed where a whole interval lies within it. In a soak, the growth per hour that does not matter.", Value: Percent(&s.Margin, 0, 10)},
		{Name: "seed", Doc: "Seed for the order of blocks and for arrivals. 0: chosen when the run starts, and recorded.", Value: Seed(&s.Seed)},
		{Name: "measures", Doc: "What to record; if left out, everything except signals, which scrapes istiod within the window, sidecars, for which a study of the control plane recreates its real pods in each trial, and profile, which takes extra time.",
			Value: ListValue[string]{To: &s.Measures, Least: 1, Flow: true, Element: func(m *string) Value { return nameValue{m, Kind.Measures} }}},
		{Name: "search", Doc: "Finds the highest level of a factor at which a finding meets a bound; levels increase, and those above one that breaks the bound need not be measured.",
			Value: ListValue[Search]{To: &s.Search, Element: search}},
		{Name: "tune", kinds: tunable(), Doc: "Searches for the best setting of the varied levers, without measuring every cell: the next cells follow from the trials so far. The recommended one is compared with the setting in use, the baseline, in separate blocks.",
			Value: tuneSection(&s.Tune, s.Kind)},
		{Name: "assert", Doc: "CEL expressions over the findings that must hold.",
			Value: ListValue[Expr]{To: &s.Assert, Element: func(e *Expr) Value { return exprValue{e} }}},
		{Name: "money", Doc: "A mesh and its prices: reports what its proxies would cost per month. {} is a million requests per second, two proxies per hop, 40 USD per core.",
			Value: moneySection(&s.Money)},
		{Name: "sizing", kinds: using("sizing"), Doc: "A mesh in which ways of carrying requests (sidecars, ambient, waypoints) are compared: reports which takes less CPU and memory, and where the border lies. {} for all defaults.",
			Value: sizingSection(&s.Sizing)},
		{Name: "published", Doc: "Published figures to compare with the measured ones.",
			Value: ListValue[Published]{To: &s.Published, Element: published}},
	}}
	for _, k := range Kinds() {
		spec := k.spec()
		if spec.Fields == nil {
			continue
		}
		section := s.Section
		if k != s.Kind { // described, and rejected on input
			section = spec.NewSection()
		}
		for _, f := range spec.Fields(section) {
			f.Field.kinds = only(k)
			o.place(f)
		}
	}
	return o
}

// tunable returns the kinds whose studies can be tuned.
func tunable() []Kind {
	return slices.DeleteFunc(Kinds(), func(k Kind) bool { return k.spec().TuneNames == nil })
}

// using returns the kinds whose studies have a field that several kinds share.
func using(name string) []Kind {
	return slices.DeleteFunc(Kinds(), func(k Kind) bool { return !slices.Contains(k.spec().Uses, name) })
}

// TimeObject is a distribution of service times.
func TimeObject(distribution *string, mean *time.Duration, sigma *float64, values *[]time.Duration, more ...Field) Object {
	return Object{Name: "service_time", Flow: true, Fields: append([]Field{
		{Name: "distribution", Doc: "Distribution of the times.", Value: OneOf(distribution, DistributionFixed, DistributionExponential, DistributionLognormal, DistributionRecorded)},
		{Name: "mean", Doc: "Mean of the distribution (not for recorded).", Value: Duration(mean, 0, time.Minute).OmitZero()},
		{Name: "sigma", Doc: "Standard deviation of the time's natural logarithm (lognormal).", Value: Float(sigma, 5).OmitZero()},
		{Name: "values", Doc: "Recorded times, drawn from at random (recorded).", Value: ListValue[time.Duration]{To: values, Least: 1, Flow: true,
			Element: func(v *time.Duration) Value { return Duration(v, 0, time.Minute) }}},
	}, more...)}
}

func published(p *Published) Value {
	return Object{Name: "a published figure", Fields: []Field{
		{Name: "source", Required: true, Doc: "Where it was published.", Value: Prose(&p.Source)},
		{Name: "claim", Required: true, Doc: "The claim, in words.", Value: Prose(&p.Claim)},
		{Name: "finding", Required: true, Doc: "The finding to compare it with.", Value: nameValue{&p.Finding, Kind.FindingNames}},
		{Name: "cell", Required: true, Doc: "The cell it is about.", Value: CellValue{To: &p.Cell, Name: "cell"}},
		{Name: "figure", Required: true, Doc: "The figure.", Value: Float(&p.Figure, 1e18)},
		{Name: "unit", Required: true, Doc: "Its unit, the finding's or one that converts to it: us, ms or s; us/request or ms/request; bytes, kB, MB, KiB or MiB; pushes.", Value: Prose(&p.Unit)},
	}}
}

// nameValue is one of the names that the study's kind has of something.
type nameValue struct {
	to    *string
	names func(Kind) []string
}

func (v nameValue) Encode() *Node { return TextNode(*v.to) }

func (v nameValue) Schema() *jsonschema.Schema { return OneOf(nil, ofAnyKind(v.names)...).Schema() }

// ofAnyKind returns the names of all kinds, each once.
func ofAnyKind(names func(Kind) []string) (all []string) {
	for _, k := range Kinds() {
		for _, name := range names(k) {
			if !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	return all
}

// Decode also recognizes names of other kinds.
func (v nameValue) Decode(d *Decoder, n *Node) {
	if name := strings.TrimSpace(n.Text); n.Kind == Scalar && !slices.Contains(v.names(d.kind), name) {
		for _, other := range Kinds() {
			if slices.Contains(v.names(other), name) {
				d.Complain(n.Pos, foreign(fmt.Sprintf("%q", name), other, d.kind))
				return
			}
		}
	}
	OneOf(v.to, v.names(d.kind)...).Decode(d, n)
}
