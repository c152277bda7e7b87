// Package findings analyzes control-plane studies: how long changes took to reach each proxy
// (convergence.go), the stages of their way (stages.go), pushes, sizes and staleness (measures.go,
// series.go), what istiod spent (cost.go) and how real sidecars would change that (fidelity.go), what
// real sidecars without requests used (sidecars.go), how new proxies join and what they hold
// (config.go), how all of them recover from a disruption (recovery.go), and what real requests met
// (traffic.go). It is pure.
package findings

import (
	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	judged "github.com/meshtrial/meshtrial/kinds/controlplane/verdict"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/verdict"
	"github.com/meshtrial/meshtrial/stat"
	"github.com/meshtrial/meshtrial/study"
)

// Kind returns the analysis of control-plane studies.
func Kind() analysis.Kind {
	return analysis.Kind{
		Name:     study.ControlPlane,
		Outdated: func(by record.Rules) string { return verdict.Outdated(by, judged.Limits) },
		Measures: controlMeasures,
		Sources:  []analysis.Source{analysis.FromSearches(), fromTuning(), fromSoak()},
		Figures:  soakRunFigures,
		Begin:    func([]study.Expr) any { return map[string]*convergence{} },
		Summarize: func(o *analysis.Observations, _ int, valid []*record.Trial, s *record.CellSummary) {
			s.Control = controlSummary(o, valid)
			if !o.Plan.Study.Measured(controlplane.MeasureConvergence) {
				return
			}
			for _, t := range valid {
				if p50 := converged(o, t).acked.Quantile(0.5); stat.Finite(p50) {
					s.BlockP50US = append(s.BlockP50US, record.BlockValue{Block: t.Block, Repeat: t.Repeat, Value: p50})
				}
			}
		},
		Places: []string{controlplane.FactorSimulators, controlplane.FactorRealPods, controlplane.FactorIstiodReplicas},
		Next:   nextTuned,
		Remarks: func(o *analysis.Observations) []note.Note {
			return append(remarks(o), o.UnlikeNodes()...)
		},
		Published: controlNotes,
		Search: analysis.Searched{Who: "istiod", OwnChecks: analysis.IstiodsChecks,
			Lost: func(o *analysis.Observations, trials []*record.Trial, m analysis.Measure) float64 {
				return missedShare(o, trials, groupOf(m))
			},
			Loose: func(o *analysis.Observations, trials []*record.Trial, m analysis.Measure) []note.Note {
				if m.MinCount == 0 {
					return nil
				}
				return fewChangesOf(o, trials, m.MinCount, groupOf(m))
			}},
	}
}
