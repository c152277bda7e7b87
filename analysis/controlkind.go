package analysis

import (
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// controlKind is what analysis asks of studies of the control plane.
func controlKind() kind {
	return kind{
		name:     study.ControlPlane,
		measures: controlMeasures,
		sources:  []source{fromSearches()},
		begin:    func([]study.Expr) any { return map[string]*convergence{} },
		summarize: func(o *observations, _ int, valid []*record.Trial, s *record.CellSummary) {
			s.Control = o.controlSummary(valid)
			if !o.plan.Study.Measured(study.MeasureConvergence) {
				return
			}
			for _, t := range valid {
				if p50 := o.converged(t).acked.Quantile(0.5); finite(p50) {
					s.BlockP50US = append(s.BlockP50US, record.BlockValue{Block: t.Block, Repeat: t.Repeat, Value: p50})
				}
			}
		},
		published: (*comparing).controlWords,
		search: searched{who: "istiod", ownChecks: istiodsChecks, lost: (*observations).missedShare,
			loose: func(o *observations, trials []*record.Trial, m measure) string {
				if m.changes == 0 {
					return ""
				}
				return o.fewChanges(trials, m.changes)
			}},
	}
}

// istiodsChecks are those that fail because of what istiod does, or cannot do.
// Those of its death are its own whatever else fails; that proxies are not
// connected is only where nothing else is wrong: on a machine that is too busy
// our own sidecars lose their streams.
var istiodsChecks = map[string]bool{"istiod-lived": true, "istiod-metrics": true, "connected": false}
