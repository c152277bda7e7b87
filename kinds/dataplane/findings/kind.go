// Package findings analyzes data-plane studies: latency and the cost of requests (kind.go), the costs
// of named parts of a sidecar (bill.go) and of a mesh per month (money.go), the cost breakdown of the
// request path (hops.go), what limits a proxy (threads.go) and what it runs (profile.go), idle cost
// and slope of CPU against rate (fit.go), which way of carrying requests needs less in a stated mesh
// (sizing.go), comparisons of versions and filters (versus.go), and whether a proxy or something else
// failed (gaveout.go). It is pure.
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

// Kind returns the analysis of data-plane studies.
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
			analysis.Adding(finding.FromLimits, limits),
			{Of: finding.FromProfile, Add: addProfiles},
			analysis.Adding(finding.FromVersus, versus),
			{Of: finding.FromBill, Add: addBills},
			{Of: finding.FromHops, Add: addHops},
			{Of: finding.FromSizing, Add: addSizing},
			analysis.FromSearches(),
			analysis.Adding(finding.FromSearch, knees),
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
			return slices.Concat(unsteadyWindows(o), sampledCPU(o), scattered(o), mixedWays(o), o.UnlikeNodes())
		},
		Search: analysis.Searched{Who: "the mesh", OwnChecks: proxiesChecks, Whose: whose},
	}
}

func dataMeasures(s *study.Study) []analysis.Measure {
	out := append(analysis.LatencyMeasures(s), waitingMeasures()...)
	if s.Measured(study.MeasureLatency) {
		out = append(out, level(analysis.MeasureOf(study.FindingThroughput, throughput)))
	}
	out = append(out, ofParts(s, study.FamilyCPU, func(t *record.Trial, part string) float64 { return analysis.CPUPerRequest(t, part, record.CPU.TotalS) })...)
	out = append(out, level(analysis.MeasureOf(dataplane.FindingIdleNode, idleNode)), level(analysis.MeasureOf(dataplane.FindingNodesNet, nodesNet)))
	out = append(out, ofParts(s, study.FamilyMemory, analysis.Memory)...)
	return slices.Concat(out, threadMeasures(s), probeMeasures(), moneyMeasures(s))
}

// level marks a measure as scattering around a typical value, which is reported.
func level(m analysis.Measure) analysis.Measure {
	m.Typical = true
	return m
}

func ofParts(s *study.Study, family string, of func(t *record.Trial, part string) float64) []analysis.Measure {
	return analysis.OfFamily(s, family, func(d finding.Def) analysis.Measure {
		return ofPart(d, func(_ *analysis.Observations, t *record.Trial) float64 { return of(t, d.Part) })
	})
}

// ofPart measures a part. Figures of a shared node proxy include its work for others, with a note.
// A waypoint or gateway belongs to the run.
func ofPart(d finding.Def, of func(*analysis.Observations, *record.Trial) float64) analysis.Measure {
	m := level(analysis.MeasureOf(d.Name, of))
	if p, ok := record.ProxyOf(d.Part); ok && p.Place == record.PlaceNode {
		m = m.Warning(func(*analysis.Observations, int) []note.Note { return []note.Note{analysis.SharedProxy.Of()} })
	}
	return m
}

// probeMeasures returns what probes count per answered request.
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

// throughput returns the requests answered per second if the cell's rate is max. Otherwise the
// schedule determines it and it says nothing.
func throughput(_ *analysis.Observations, t *record.Trial) float64 {
	if t.Load == nil || !t.Load.Rate.IsMax() || t.Window.Seconds <= 0 {
		return math.NaN()
	}
	return float64(t.Load.AnsweredWithin()) / t.Window.Seconds
}
