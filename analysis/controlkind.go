package analysis

import (
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
	"github.com/meshtrial/meshtrial/study"
)

// ControlPlane is what analysis asks of studies of the control plane.
func ControlPlane() Kind {
	return Kind{
		Name:     study.ControlPlane,
		Measures: controlMeasures,
		Sources:  []Source{FromSearches()},
		Begin:    func([]study.Expr) any { return map[string]*convergence{} },
		Summarize: func(o *Observations, _ int, valid []*record.Trial, s *record.CellSummary) {
			s.Control = controlSummary(o, valid)
			if !o.Plan.Study.Measured(study.MeasureConvergence) {
				return
			}
			for _, t := range valid {
				if p50 := converged(o, t).acked.Quantile(0.5); stat.Finite(p50) {
					s.BlockP50US = append(s.BlockP50US, record.BlockValue{Block: t.Block, Repeat: t.Repeat, Value: p50})
				}
			}
		},
		Published: controlWords,
		Search: Searched{Who: "istiod", OwnChecks: IstiodsChecks, Lost: missedShare,
			Loose: func(o *Observations, trials []*record.Trial, m Measure) string {
				if m.Takes == 0 {
					return ""
				}
				return fewChangesOf(o, trials, m.Takes)
			}},
	}
}

// IstiodsChecks are those that fail because of what istiod does, or cannot do.
// Those of its death are its own whatever else fails; that proxies are not
// connected is only where nothing else is wrong: on a machine that is too busy
// our own sidecars lose their streams.
var IstiodsChecks = map[string]bool{"istiod-lived": true, "istiod-metrics": true, "connected": false}
