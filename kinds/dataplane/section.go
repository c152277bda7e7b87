// Package dataplane defines the data-plane kind's part of study files: its section, factors,
// findings and checks, and the pods that a cell needs. It depends on no lab and no mesh. The
// packages below it run, judge, analyze and report its trials.
package dataplane

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/invopop/jsonschema"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/probe"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/study/protocol"
)

// Section holds the part of files that is specific to data-plane studies.
type Section struct {
	Workload Workload
	// Window is the measured time of a trial, a whole number of intervals.
	Window time.Duration
	// Interval is the generator's accounting interval.
	Interval time.Duration
	// Bill asks for the costs of named parts, and generates the variants; nil: none.
	Bill *Bill
	// Hops asks for the cost breakdown of the request path, and generates the variants; nil: none.
	Hops *Hops
	// EnvoyFilters are the user-defined ones that the factor filters names.
	EnvoyFilters []EnvoyFilter
	// Wasm are the user's modules that the factor filters names.
	Wasm []WasmModule
	// Profile configures profiles, if they are measured; nil: [DefaultProfiling].
	Profile *Profiling
}

// Of returns the section of a data-plane study, which is empty for other kinds.
func Of(s *study.Study) *Section {
	if d, ok := s.Section.(*Section); ok {
		return d
	}
	return &Section{}
}

func defaults() *Section {
	return &Section{Workload: Workload{Response: study.Echo, ServiceTime: ServiceTime{Distribution: study.DistributionFixed}},
		Window: 2 * time.Second, Interval: 250 * time.Millisecond}
}

func placed(c *Section) []study.Placed {
	return []study.Placed{
		{After: "exclude", Field: study.Field{Name: "workload", Doc: "What the worker does per request.", Value: workload(&c.Workload)}},
		{After: "warmup", Field: study.Field{Name: "window", Doc: "How long a trial measures: a whole number of intervals.", Value: study.Duration(&c.Window, 100*time.Millisecond, time.Hour)}},
		{After: "window", Field: study.Field{Name: "interval", Doc: "Reporting interval of the generator.", Value: study.Duration(&c.Interval, 50*time.Millisecond, time.Minute)}},
		{After: "variants", Field: study.Field{Name: "bill", Doc: "Prices named parts of a sidecar: each alone over a base, and all together. Generates the variants base, one named after each part, together, and without-PART.",
			Value: study.Stated(&c.Bill, func() Bill { return Bill{Direct: DirectAdd, Base: record.Cell{}} }, billFields)}},
		{After: "bill", Field: study.Field{Name: "hops", Doc: "Breaks down the cost of a request by cells that leave one element out: the path without sidecars, the client's and the server's sidecar, TLS and redirection. {} for all defaults. Generates the variants bare, client, server, both, tls and redirect.",
			Value: study.Stated(&c.Hops, func() Hops { return Hops{Interception: true} }, hopsFields)}},
		{After: "exclude", Field: study.Field{Name: "envoy_filters", Doc: "Your own EnvoyFilters for factor filters, by name with a file relative to the study: {mine: mine.yaml}.", Value: envoyFiltersValue{&c.EnvoyFilters}}},
		{After: "envoy_filters", Field: study.Field{Name: "wasm", Doc: "Your own Wasm modules for factor filters, by name with a file relative to the study: {mine: mine.wasm}.", Value: wasmValue{&c.Wasm}}},
		{After: "sizing", Field: study.Field{Name: "profile", Doc: "How to profile: after each trial's window, under the same load.",
			Value: study.Stated(&c.Profile, DefaultProfiling, profileFields)}},
	}
}

// resolveMade generates the variants of a bill or of hops, with the first as the baseline.
func resolveMade(d *study.Decoder, s *study.Study) {
	resolveBill(d, s)
	resolveHops(d, s)
	c := Of(s)
	s.Made = c.Bill != nil || c.Hops != nil
	if s.Baseline != nil {
		return
	}
	chosen := len(s.Varied(study.FactorVariant))
	if chosen == 0 {
		chosen = len(s.Variants)
	}
	switch {
	case c.Hops != nil:
		s.Baseline = record.Cell{study.FactorVariant: HopBare}
	case c.Bill != nil && chosen > 1:
		s.Baseline = record.Cell{study.FactorVariant: c.Bill.baseline()}
	}
}

// madeNames returns the variants that sections of a file generate.
func madeNames(root *study.Node) []string {
	var out []string
	if n := root.Get("bill"); n != nil && n.Kind == study.Mapping {
		out = append(out, billNames(n)...)
	}
	if root.Get("hops") != nil {
		for _, v := range (&Hops{Interception: true}).variants() {
			out = append(out, v.Name)
		}
	}
	return out
}

// madeAt returns the position of a level in a variant that a bill generates; nil for others.
func madeAt(s *study.Study, variant, factor string) []any {
	b := Of(s).Bill
	if b == nil {
		return nil
	}
	if _, ok := b.Base[factor]; ok {
		return []any{"bill", "base", factor}
	}
	return []any{"bill", "parts", strings.TrimPrefix(variant, billWithout), factor}
}

func init() { study.AddKind(study.DataPlane, spec()) }

func spec() study.Spec {
	return study.Spec{
		About:      "the data plane",
		Example:    study.FactorSidecars + ": " + study.SidecarsNone,
		Factors:    factors,
		Measures:   slices.Concat([]string{study.MeasureLatency, study.MeasureCPU, study.MeasureMemory, study.MeasureConnections, study.MeasureEnvoy, study.MeasurePressure, study.MeasureThreads, study.MeasureProfile}, probe.Names()),
		Unasked:    append(probe.Names(), study.MeasureProfile),
		Findings:   findings,
		Uses:       []string{"load", "warmup", "sizing"},
		Reference:  partsReference() + reference,
		Sample:     "{hops: {}, money: {}, sizing: {}, profile: {}}",
		NewSection: func() any { return defaults() },
		Fields:     func(section any) []study.Placed { return placed(section.(*Section)) },
		Resolve:    resolveMade,
		MadeNames:  madeNames,
		MadeAt:     madeAt,
		Nodes:      placementNodes,
		Check: func(d *study.Decoder, s *study.Study) {
			checkWindow(d, s)
			checkLoad(d, s)
			checkFilters(d, s)
			checkServiceTime(d, &Of(s).Workload.ServiceTime)
			checkPlanted(d, s)
			checkInterception(d, s)
			checkCarriers(d, s)
			checkSizedWays(d, s)
			checkProfile(d, s)
		},
		CheckPlan: func(d *study.Decoder, p *study.Plan) {
			checkFilterCells(d, p)
			checkBillCells(d, p)
			checkHopCells(d, p)
			checkGatewayCells(d, p)
			checkDestinations(d, p)
			checkStreamCells(d, p)
		},
		Files: files,
		Trial: func(s *study.Study, _ record.Cell) (shortest, longest time.Duration) {
			return s.Warmup.Min + Of(s).Window + study.SwitchTime, s.Warmup.Max + Of(s).Window + study.SwitchTime
		},
	}
}

// files inlines recorded service times, EnvoyFilters and Wasm modules.
func files(s *study.Study, read func(name string) ([]byte, error)) error {
	section := *Of(s)
	if t := &section.Workload.ServiceTime; t.File != "" {
		times, err := study.ReadLines(read, "workload.service_time.file", t.File, maxValues, "recorded times", "write one duration per line, such as 1.5ms", parseTime)
		if err != nil {
			return err
		}
		t.File, t.Values = "", times
	}
	section.EnvoyFilters = slices.Clone(section.EnvoyFilters)
	s.Section = &section
	for i := range section.EnvoyFilters {
		f := &section.EnvoyFilters[i]
		if f.File == "" {
			continue
		}
		data, err := read(f.File)
		if err == nil {
			err = f.parse(data)
		}
		if err != nil {
			return fmt.Errorf("envoy_filters.%s: %w", f.Name, err)
		}
		f.File = ""
	}
	var err error
	section.Wasm, err = readModules(section.Wasm, read)
	return err
}

func checkWindow(d *study.Decoder, s *study.Study) {
	window, interval := Of(s).Window, Of(s).Interval
	if window%interval != 0 || window < interval {
		n := max(1, math.Round(float64(window)/float64(interval)))
		d.Fail(d.Pos("window"), study.CodeConflict, "for example "+study.FormatDuration(time.Duration(n)*interval),
			"window %s is not a whole number of intervals of %s", study.FormatDuration(window), study.FormatDuration(interval))
	}
}

func checkLoad(d *study.Decoder, s *study.Study) {
	if name := speaks(s, func(p protocol.Protocol) bool { return p.Echo }); name != "" && slices.Contains(s.Levels(study.FactorPayload), "0B") {
		d.Fail(d.Pos("factors", study.FactorPayload), study.CodeConflict, "use a payload of at least 1B, or leave "+name+" out", "protocol %s echoes the payload and cannot do so with payload 0B", name)
	}
}

const reference = `
A factor that does not apply in a cell is recorded as ` + "`-`" + `: proxy settings without sidecars, ` + "`mtls`" + `
without a server's sidecar, ` + "`arrival`" + ` at rate ` + "`max`" + `. Cells that differ only in such a factor are one
cell, measured once.

Strict mutual TLS cannot serve a client without a sidecar: such a cell (` + "`sidecars: server`" + `) is recorded
as ` + "`permissive`" + `, and is an error if ` + "`mtls`" + ` itself varies.
`

// Workload is what the worker does with a request, in every cell.
type Workload struct {
	// Response is the size of the response body; [study.Echo] sends the request's body back.
	Response    study.Bytes
	ServiceTime ServiceTime
}

// ServiceTime is how long the worker holds a request before it responds.
type ServiceTime struct {
	Distribution string
	Mean         time.Duration // of the distribution itself, including lognormal; unused when recorded
	// Sigma is the standard deviation of the time's natural logarithm (lognormal only).
	Sigma float64
	// Values are recorded times to draw from at random (recorded only).
	Values []time.Duration
	// File names a file of recorded times, one duration a line; see [study.Study.WithFiles]. It is
	// empty once they are in Values.
	File string
}

func workload(w *Workload) study.Object {
	t := &w.ServiceTime
	return study.Object{Name: "workload", Fields: []study.Field{
		{Name: "response", Doc: "Response body size; echo returns the request's body, as TCP always does.", Value: response(&w.Response)},
		{Name: "service_time", Doc: "Service time of the worker.", Value: study.TimeObject(&t.Distribution, &t.Mean, &t.Sigma, &t.Values,
			study.Field{Name: "file", Doc: "File of recorded times next to the study, one per line (recorded).", Value: study.Prose(&t.File)})},
	}}
}

func response(to *study.Bytes) study.Single[study.Bytes] {
	parse := func(text string) (study.Bytes, *study.Error) {
		if text == study.Echo.String() {
			return study.Echo, nil
		}
		b, c := study.ParseBytes(text)
		switch {
		case c != nil:
			c.Hint = strings.TrimPrefix(c.Hint+", or echo", ", or ")
		case b > study.MaxPayload:
			c = study.Complain(study.CodeRange, "use at most 64MiB", "%s is too large", text)
		}
		return b, c
	}
	pattern := study.Payload.Pattern
	return study.Parsed(to, parse, study.Bytes.String, jsonschema.Schema{Type: "string", Pattern: strings.Replace(pattern, "^", "^(echo|", 1)[:len(pattern)+5] + ")$", Examples: []any{"echo", "1KiB"}})
}

func checkServiceTime(d *study.Decoder, t *ServiceTime) {
	at := func(f string) study.Pos { return d.Pos("workload", "service_time", f) }
	recorded := t.Distribution == study.DistributionRecorded
	switch {
	case recorded && (t.File == "") == (len(t.Values) == 0):
		d.Fail(at("distribution"), study.CodeConflict, "", "distribution recorded needs either values or a file")
	case recorded && t.Mean != 0:
		d.Fail(at("mean"), study.CodeConflict, "leave it out", "recorded times have their own mean")
	case !recorded && (t.File != "" || len(t.Values) > 0):
		d.Fail(at("distribution"), study.CodeConflict, "use distribution: recorded, or leave values and file out", "distribution %s takes no recorded times", t.Distribution)
	case t.Distribution != study.DistributionLognormal && t.Sigma != 0:
		d.Fail(at("sigma"), study.CodeConflict, "leave it out", "sigma is for distribution lognormal")
	case t.Distribution == study.DistributionLognormal && t.Sigma == 0:
		d.Fail(at("distribution"), study.CodeConflict, "for example sigma: 0.5", "distribution lognormal needs a sigma above 0")
	case (t.Distribution == study.DistributionLognormal || t.Distribution == study.DistributionExponential) && t.Mean == 0:
		d.Fail(at("distribution"), study.CodeConflict, "for example mean: 1ms", "distribution %s needs a mean above 0", t.Distribution)
	}
}

// maxValues limits the number of recorded times, in a study and in a file it names.
const maxValues = 10_000

func parseTime(text string) (time.Duration, *study.Error) {
	v, c := study.ParseDuration(text)
	if c == nil && v > time.Minute {
		c = study.Complain(study.CodeRange, "use at most 1m", "%s is too long", text)
	}
	return v, c
}

// Profiling configures the profiling of proxies.
type Profiling struct {
	Hz     int // samples per second of each thread's CPU time
	Length time.Duration
	Graph  string // GraphFP, GraphDwarf, GraphNone
}

// Additional time of a trial's profile: perf needs a moment to start, and CPU is read well inside
// the sampled period.
const (
	ProfileLead  = 2 * time.Second
	ProfileTrail = time.Second
)

// Taken returns how long perf samples for a profile.
func (p Profiling) Taken() time.Duration { return ProfileLead + p.Length + ProfileTrail }

// Call graph methods, as perf names them.
const (
	GraphFP    = "fp"
	GraphDwarf = "dwarf"
	GraphNone  = "none"
)

// DefaultProfiling returns the default profiling configuration.
func DefaultProfiling() Profiling {
	return Profiling{Hz: 99, Length: 10 * time.Second, Graph: GraphFP}
}

// ProfilingOf returns the study's profiling configuration.
func ProfilingOf(s *study.Study) Profiling {
	if Of(s).Profile == nil {
		return DefaultProfiling()
	}
	return *Of(s).Profile
}

// Prefixes of findings from profiles, each followed by the part ("profile_cost_client_proxy").
const (
	// FindingProfileCost is the additional CPU that a part uses while it is profiled, as a share.
	FindingProfileCost = "profile_cost"
	// FindingProfileNamed is the share of user-space samples whose function is known.
	FindingProfileNamed = "profile_named"
	// FindingCentre is a cost centre's share of a part's CPU time; the centre follows the part.
	// Only a run shows which centres there are.
	FindingCentre = "profile_share"
)

func profileFields(p *Profiling) study.Object {
	return study.Object{Name: "profile", Flow: true, Fields: []study.Field{
		{Name: "hz", Doc: "Samples per second of each thread's CPU time.", Value: study.Int(&p.Hz, 1, 10_000)},
		{Name: "length", Doc: "Duration of a profile.", Value: study.Duration(&p.Length, time.Second, time.Hour)},
		{Name: "graph", Doc: "Call stacks by frame pointers, by debug information (expensive), or none.", Value: study.OneOf(&p.Graph, GraphFP, GraphDwarf, GraphNone)},
	}}
}

// checkProfile finds profiles that would not fit.
func checkProfile(d *study.Decoder, s *study.Study) {
	p := ProfilingOf(s)
	if taken := p.Taken(); p.Graph == GraphDwarf && record.CopiesOfStacks(p.Hz, taken) > record.MaxRecording {
		d.Fail(d.Pos("profile"), study.CodeConflict, "lower hz or length, or take graph: fp", "profile: %s", record.TooManyCopies(p.Hz, taken))
	}
}
