// Package findings is what analysis asks of studies of the data plane: latency
// and what requests cost (kind.go), what named parts of a sidecar cost (bill.go,
// billwords.go) and a mesh per month (money.go), the cost breakdown of the request path
// (hops.go), what holds a proxy back (threads.go) and what it runs (profile.go),
// idle cost and slope of CPU against rate (fit.go), which way of carrying requests takes
// less in a stated mesh (sizing.go), where the tail bends up (knee.go), how versions and filters do beside each other (versus.go), and
// whether a proxy or something else gave out (gaveout.go). It is pure.
package findings

import (
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	judged "github.com/meshtrial/meshtrial/kinds/dataplane/verdict"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/record/probe"
	"github.com/meshtrial/meshtrial/run/verdict"
	"github.com/meshtrial/meshtrial/study"
)

// Kind is what analysis asks of studies of the data plane.
func Kind() analysis.Kind {
	return analysis.Kind{
		Name:     study.DataPlane,
		Outdated: func(by record.Rules) string { return verdict.Outdated(by, judged.Limits) },
		Measures: dataMeasures,
		Sources: []analysis.Source{
			{Of: finding.FromFits, Add: func(o *analysis.Observations, f *record.Findings) {
				fits := fits(o)
				f.Findings = append(append(f.Findings, fits...), moneyFits(o, fits)...)
			}},
			{Of: finding.FromLimits, Add: func(o *analysis.Observations, f *record.Findings) { f.Findings = append(f.Findings, limits(o)...) }},
			{Of: finding.FromProfile, Add: addProfiles},
			{Of: finding.FromVersus, Add: func(o *analysis.Observations, f *record.Findings) { f.Findings = append(f.Findings, versus(o)...) }},
			{Of: finding.FromBill, Add: addBills},
			{Of: finding.FromHops, Add: addHops},
			{Of: finding.FromSizing, Add: addSizing},
			analysis.FromSearches(),
			{Of: finding.FromSearch, Add: func(o *analysis.Observations, f *record.Findings) { f.Findings = append(f.Findings, knees(o)...) }},
		},
		Summarize: func(o *analysis.Observations, cell int, _ []*record.Trial, s *record.CellSummary) {
			s.Threads, s.Heat = threads(o, cell), latencyByBlock(o, cell)
		},
		Finish: func(s *study.Study, f *record.Findings) {
			shared := slices.ContainsFunc(f.Cells, func(c record.CellSummary) bool { return c.Way.Shared() })
			f.Money = analysis.MoneyWords(s.PricedMesh(), shared)
		},
		Places: []string{dataplane.FactorPlacement, study.FactorGenerators},
		Unfair: unfair,
		Remarks: func(o *analysis.Observations) []note.Note {
			return slices.Concat(unsteadyWindows(o), sampledCPU(o), scattered(o), mixedWays(o), unlikeNodes(o))
		},
		Search: analysis.Searched{Who: "the mesh", OwnChecks: proxiesChecks, Whose: whose},
	}
}

// heatSteps is how many ranges of latency a factor of ten has.
const heatSteps = 12

// latencyByBlock counts a cell's requests by block and latency; nil without any.
func latencyByBlock(o *analysis.Observations, cell int) *record.LatencyByBlock {
	out := &record.LatencyByBlock{}
	step := func(ns int64) int {
		return int(math.Floor(heatSteps * math.Log10(math.Max(1, float64(ns)*analysis.NsToUS))))
	}
	var counts []map[int]int64 // of each block, by step
	first, last := math.MaxInt, math.MinInt
	for _, block := range o.Blocks {
		in := map[int]int64{}
		for _, t := range o.ValidIn(cell, block) {
			h := o.Run.Hist[t.ID].Intended
			if h == nil {
				continue
			}
			for _, bar := range h.Distribution() {
				if bar.Count > 0 {
					i := step(bar.From + (bar.To-bar.From)/2)
					in[i], first, last = in[i]+bar.Count, min(first, i), max(last, i)
				}
			}
		}
		if len(in) > 0 {
			out.Blocks, counts = append(out.Blocks, block), append(counts, in)
		}
	}
	if len(counts) == 0 {
		return nil
	}
	for i := first; i <= last+1; i++ {
		out.EdgesUS = append(out.EdgesUS, math.Pow(10, float64(i)/heatSteps))
	}
	for _, in := range counts {
		row := make([]int64, last-first+1)
		for i, n := range in {
			row[i-first] = n
		}
		out.Counts = append(out.Counts, row)
	}
	return out
}

// dataMeasures lists what data-plane studies measure.
func dataMeasures(s *study.Study) []analysis.Measure {
	out := append(analysis.LatencyMeasures(s), waitingMeasures()...)
	if s.Measured(study.MeasureLatency) {
		out = append(out, level(analysis.MeasureOf(study.FindingThroughput, throughput)))
	}
	out = append(out, ofParts(s, study.FamilyCPU, func(t *record.Trial, part string) float64 { return analysis.CPUPerRequest(t, part, record.CPU.TotalS) })...)
	out = append(out, level(analysis.MeasureOf(dataplane.FindingIdleNode, idleNode)), level(analysis.MeasureOf(dataplane.FindingNodesNet, nodesNet)))
	out = append(out, ofParts(s, study.FamilyMemory, analysis.Memory)...)
	priced := moneyMeasures(s)
	for i := range priced {
		priced[i] = level(priced[i])
	}
	return slices.Concat(out, threadMeasures(s), probeMeasures(), priced)
}

// level is a measure of what trials have all the time, so that its typical value
// is told.
func level(m analysis.Measure) analysis.Measure {
	m.Typical = true
	return m
}

// ofParts measures each part.
func ofParts(s *study.Study, family string, of func(t *record.Trial, part string) float64) []analysis.Measure {
	return analysis.OfFamily(s, family, func(d finding.Def) analysis.Measure {
		return ofPart(d, func(_ *analysis.Observations, t *record.Trial) float64 { return of(t, d.Part) })
	})
}

// ofPart measures a part. A node's proxy, which others share, has what it does for them in
// it, and says so. A waypoint or gateway is the run's own.
func ofPart(d finding.Def, of func(*analysis.Observations, *record.Trial) float64) analysis.Measure {
	m := level(analysis.MeasureOf(d.Name, of))
	if p, ok := record.ProxyOf(d.Part); ok && p.Place == record.PlaceNode {
		m = m.Warning(func(*analysis.Observations, int) []note.Note { return []note.Note{analysis.SharedProxy.Of()} })
	}
	return m
}

// probeMeasures are what probes count for each answered request.
func probeMeasures() []analysis.Measure {
	var out []analysis.Measure
	for _, p := range probe.All {
		for _, f := range p.Figures {
			for _, part := range dataplane.ProbedParts() {
				out = append(out, analysis.MeasureOf(dataplane.ProbeFinding(f.Name, part), func(_ *analysis.Observations, t *record.Trial) float64 {
					rise, ok := t.Probed[part][f.Name]
					if !ok || t.Load.AnsweredWithin() <= 0 {
						return math.NaN()
					}
					return float64(rise) / float64(t.Load.AnsweredWithin())
				}))
			}
		}
	}
	return out
}

// throughput is requests answered per second, where the cell asks for as many as
// possible; elsewhere the schedule sets it and it says nothing.
func throughput(_ *analysis.Observations, t *record.Trial) float64 {
	if t.Load == nil || !t.Load.Rate.IsMax() || t.Window.Seconds <= 0 {
		return math.NaN()
	}
	return float64(t.Load.AnsweredWithin()) / t.Window.Seconds
}
