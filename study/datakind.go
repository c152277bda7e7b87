package study

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/probe"
	"github.com/meshtrial/meshtrial/study/protocol"
)

// Data is what studies of the data plane have of their own in files.
type Data struct {
	// Bill asks what named parts cost, and makes the variants; nil: none.
	Bill *Bill
	// Hops asks the cost breakdown of the request path, and makes the variants; nil:
	// nobody asks.
	Hops *Hops
	// EnvoyFilters are those of the user's that the factor filters names.
	EnvoyFilters []EnvoyFilter
	// Profile says how profiles are taken, if they are measured; nil: as
	// [DefaultProfiling] says.
	Profile *Profiling
}

// DataOf is the section of a study of the data plane; of another kind's it is empty.
func DataOf(s *Study) *Data {
	if d, ok := s.Section.(*Data); ok {
		return d
	}
	return &Data{}
}

func dataPlaced(c *Data) []Placed {
	return []Placed{
		{After: "variants", Field: Field{Name: "bill", Doc: "Prices named parts of a sidecar: each alone over a base, and all together. It generates the variants base, one by the name of each part, together, and without-PART.",
			Value: billSection(&c.Bill)}},
		{After: "bill", Field: Field{Name: "hops", Doc: "Splits the cost of a request into the path without sidecars, the client's and the server's sidecar, TLS and redirection, by cells that leave one out; {} takes every default. It generates the variants bare, client, server, both, tls and redirect.",
			Value: hopsSection(&c.Hops)}},
		{After: "exclude", Field: Field{Name: "envoy_filters", Doc: "Your own EnvoyFilters for the factor filters, as {mine: mine.yaml}: the files, relative to the study.", Value: envoyFiltersValue{&c.EnvoyFilters}}},
		{After: "sizing", Field: Field{Name: "profile", Doc: "How to profile: after each trial's window, while the same load runs once more.",
			Value: profileValue{&c.Profile}}},
	}
}

// resolveMade makes the variants of a bill or of hops, which compare with the first.
func resolveMade(d *Decoder, s *Study) {
	d.resolveBill(s)
	d.resolveHops(s)
	c := DataOf(s)
	s.Made = c.Bill != nil || c.Hops != nil
	if s.Baseline != nil {
		return
	}
	chosen := len(s.Varied(FactorVariant))
	if chosen == 0 {
		chosen = len(s.Variants)
	}
	switch {
	case c.Hops != nil:
		s.Baseline = record.Cell{FactorVariant: HopBare}
	case c.Bill != nil && chosen > 1:
		s.Baseline = record.Cell{FactorVariant: c.Bill.baseline()}
	}
}

// madeNames are the variants that sections of a file make.
func madeNames(root *Node) []string {
	var out []string
	if n := root.Get("bill"); n != nil && n.Kind == Mapping {
		out = append(out, billNames(n)...)
	}
	if root.Get("hops") != nil {
		for _, v := range (&Hops{Interception: true}).variants() {
			out = append(out, v.Name)
		}
	}
	return out
}

// madeAt is where the file has a level of a variant that a bill makes; nil for others.
func madeAt(s *Study, variant, factor string) []any {
	b := DataOf(s).Bill
	if b == nil {
		return nil
	}
	if _, ok := b.Base[factor]; ok {
		return []any{"bill", "base", factor}
	}
	return []any{"bill", "parts", strings.TrimPrefix(variant, billWithout), factor}
}

func dataSpec() Spec {
	return Spec{
		About:      "the data plane",
		Example:    FactorSidecars + ": " + SidecarsNone,
		Factors:    dataFactors,
		Measures:   slices.Concat([]string{MeasureLatency, MeasureCPU, MeasureMemory, MeasureConnections, MeasureEnvoy, MeasurePressure, MeasureThreads, MeasureProfile}, probe.Names()),
		Unasked:    append(probe.Names(), MeasureProfile),
		Findings:   dataFindings,
		Uses:       []string{"load", "warmup", "sizing"},
		Reference:  partsReference() + referenceData,
		Sample:     "{hops: {}, money: {}, sizing: {}, profile: {}}",
		NewSection: func() any { return &Data{} },
		Fields:     func(section any) []Placed { return dataPlaced(section.(*Data)) },
		Resolve:    resolveMade,
		MadeNames:  madeNames,
		MadeAt:     madeAt,
		Nodes:      placementNodes,
		Check: func(d *Decoder, s *Study) {
			d.checkWindow(s)
			d.checkLoad(s)
			d.checkFilters(s)
			d.checkServiceTime(&s.Workload.ServiceTime)
			d.checkPlanted(s)
			d.checkInterception(s)
			d.checkCarriers(s)
			d.checkSizedWays(s)
		},
		CheckPlan: func(d *Decoder, p *Plan) {
			d.checkFilterCells(p)
			d.checkBillCells(p)
			d.checkHopCells(p)
			d.checkGatewayCells(p)
		},
		Files: dataFiles,
		Trial: func(s *Study, _ record.Cell) (shortest, longest time.Duration) {
			return s.Warmup.Min + s.Window + SwitchTime, s.Warmup.Max + s.Window + SwitchTime
		},
	}
}

// dataFiles puts in recorded service times and EnvoyFilters.
func dataFiles(s *Study, read func(name string) ([]byte, error)) error {
	if t := &s.Workload.ServiceTime; t.File != "" {
		times, err := ReadLines(read, "workload.service_time.file", t.File, maxValues, "recorded times", "a duration a line, as 1.5ms", parseTime)
		if err != nil {
			return err
		}
		t.File, t.Values = "", times
	}
	section := *DataOf(s)
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
	return nil
}

func (d *Decoder) checkWindow(s *Study) {
	if s.Window%s.Interval != 0 || s.Window < s.Interval {
		n := max(1, math.Round(float64(s.Window)/float64(s.Interval)))
		d.Fail(d.Pos("window"), CodeConflict, "for example "+FormatDuration(time.Duration(n)*s.Interval),
			"window %s is no whole number of intervals of %s", FormatDuration(s.Window), FormatDuration(s.Interval))
	}
}

func (d *Decoder) checkLoad(s *Study) {
	if name := s.speaks(func(p protocol.Protocol) bool { return p.Echo }); name != "" && slices.Contains(s.Levels(FactorPayload), "0B") {
		d.Fail(d.Pos("factors", FactorPayload), CodeConflict, "give payload at least 1B, or leave "+name+" out", "protocol %s echoes the payload and cannot do so with payload 0B", name)
	}
}

func (d *Decoder) checkServiceTime(t *ServiceTime) {
	at := func(f string) Pos { return d.Pos("workload", "service_time", f) }
	recorded := t.Distribution == DistributionRecorded
	switch {
	case recorded && (t.File == "") == (len(t.Values) == 0):
		d.Fail(at("distribution"), CodeConflict, "", "distribution recorded needs either values or a file")
	case recorded && t.Mean != 0:
		d.Fail(at("mean"), CodeConflict, "leave it out", "recorded times have their own mean")
	case !recorded && (t.File != "" || len(t.Values) > 0):
		d.Fail(at("distribution"), CodeConflict, "use distribution: recorded, or leave values and file out", "distribution %s takes no recorded times", t.Distribution)
	case t.Distribution != DistributionLognormal && t.Sigma != 0:
		d.Fail(at("sigma"), CodeConflict, "leave it out", "sigma is for distribution lognormal")
	case t.Distribution == DistributionLognormal && t.Sigma == 0:
		d.Fail(at("distribution"), CodeConflict, "as sigma: 0.5", "distribution lognormal needs a sigma above 0")
	case (t.Distribution == DistributionLognormal || t.Distribution == DistributionExponential) && t.Mean == 0:
		d.Fail(at("distribution"), CodeConflict, "as mean: 1ms", "distribution %s needs a mean above 0", t.Distribution)
	}
}

const referenceData = `
A factor that does not apply in a cell is recorded as ` + "`-`" + `: the proxies' settings where no pod
has a sidecar, ` + "`mtls`" + ` where the server has none, ` + "`arrival`" + ` at rate ` + "`max`" + `. Cells that differ
only in such a factor are one cell, measured once.

Strict mutual TLS cannot serve a client without a sidecar. Such a cell (` + "`sidecars: server`" + `) is
recorded as the ` + "`permissive`" + ` that it is, and refused if ` + "`mtls`" + ` itself varies.
`

// maxValues bounds recorded times, in a study and in a file it names.
const maxValues = 10_000

func parseTime(text string) (time.Duration, *Error) {
	v, c := ParseDuration(text)
	if c == nil && v > time.Minute {
		c = Complain(CodeRange, "at most 1m is possible", "%s is too long", text)
	}
	return v, c
}
