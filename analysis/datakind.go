package analysis

import (
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/finding"
	"github.com/meshtrial/meshtrial/probe"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// DataPlane is what analysis asks of studies of the data plane.
func DataPlane() Kind {
	return Kind{
		Name:     study.DataPlane,
		Measures: dataMeasures,
		Sources: []Source{
			{finding.FromFits, func(o *Observations, f *record.Findings) {
				fits := fits(o)
				f.Findings = append(append(f.Findings, fits...), moneyFits(o, fits)...)
			}},
			{finding.FromLimits, func(o *Observations, f *record.Findings) { f.Findings = append(f.Findings, limits(o)...) }},
			{finding.FromProfile, addProfiles},
			{finding.FromVersus, func(o *Observations, f *record.Findings) { f.Findings = append(f.Findings, versus(o)...) }},
			{finding.FromBill, addBills},
			{finding.FromHops, addHops},
			FromSearches(),
			{finding.FromSearch, func(o *Observations, f *record.Findings) { f.Findings = append(f.Findings, knees(o)...) }},
		},
		Summarize: func(o *Observations, cell int, _ []*record.Trial, s *record.CellSummary) {
			s.Threads = threads(o, cell)
		},
		Finish: func(s *study.Study, f *record.Findings) { f.Money = moneyWords(s.Money) },
		Search: Searched{Who: "the mesh", OwnChecks: proxiesChecks, Whose: whose},
	}
}

// dataMeasures lists what data-plane studies measure.
func dataMeasures(s *study.Study) []Measure {
	var out []Measure
	for _, q := range Quantiles {
		m := MeasureOf("latency_"+q.Name, func(o *Observations, t *record.Trial) float64 { return o.Latency(t).Quantile(q.Q) })
		m.Quantile = q.Q
		out = append(out, m)
	}
	if s.Measured(study.MeasureLatency) {
		out = append(out, MeasureOf(study.FindingThroughput, throughput))
	}
	for _, part := range CPUParts {
		out = append(out, MeasureOf("cpu_"+part+"_per_request", func(_ *Observations, t *record.Trial) float64 { return CPUPerRequest(t, part, record.CPU.TotalS) }))
	}
	for _, part := range MemoryParts {
		out = append(out, MeasureOf("memory_"+part, func(_ *Observations, t *record.Trial) float64 { return Memory(t, part) }))
	}
	return slices.Concat(out, threadMeasures(), probeMeasures(), moneyMeasures(s))
}

// probeMeasures are what probes count for each answered request.
func probeMeasures() []Measure {
	var out []Measure
	for _, p := range probe.All {
		for _, f := range p.Figures {
			for _, part := range study.ProbedParts() {
				out = append(out, MeasureOf(study.ProbeFinding(f.Name, part), func(_ *Observations, t *record.Trial) float64 {
					rise, ok := t.Probed[part][f.Name]
					if !ok || t.Load == nil || t.Load.Completed <= 0 {
						return math.NaN()
					}
					return float64(rise) / float64(t.Load.Completed)
				}))
			}
		}
	}
	return out
}

// throughput is requests answered a second, where the cell asks for as many as
// possible; elsewhere the schedule sets it and it says nothing.
func throughput(_ *Observations, t *record.Trial) float64 {
	if t.Load == nil || !t.Load.Rate.IsMax() || t.Window.Seconds <= 0 {
		return math.NaN()
	}
	return float64(t.Load.Completed) / t.Window.Seconds
}
