package findings

import (
	"fmt"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/study"
)

// weight is how much more of something istiod needed with real sidecars than
// with as many simulated ones, as the study simulated-against-real found.
type weight struct{ estimate, low, high float64 } // a ratio and its 95% interval

// weighed are the ratios of istiod's CPU time per change: 16 sidecars of either
// kind, 300 Services, istiod 1.31 on a machine of two cores that others used
// too, 5 blocks. docs/method.md says what they come from. Run the study and put
// its answer here when the simulator or the mesh's release changes.
var weighed = struct{ own, shared weight }{
	own:    weight{1.28, 1.17, 1.40}, // mutual TLS, a connection each
	shared: weight{1.43, 1.30, 1.57}, // plain text, 50 on a connection
}

// remarks warns of costs that come from simulated sidecars: real ones weigh
// more. A study that has real ones alone in some cell compares for itself.
func remarks(o *analysis.Observations) []string {
	s := o.Plan.Study
	if !s.Measured(study.MeasureCost) {
		return nil
	}
	simulated := false
	for i := range o.Plan.Cells {
		for _, t := range o.Valid(i) {
			if t.Control == nil {
				continue
			}
			if n := t.Control.Proxies + t.Control.Gateways; n > 0 {
				simulated = true
			} else if t.Control.RealProxies > 0 {
				return nil
			}
		}
	}
	if !simulated {
		return nil
	}
	w, how := weighed.own, "over TLS, each on a connection of its own"
	if c := s.Control; c.Security == study.SecurityPlaintext || c.StreamsPerConnection > 1 {
		w, how = weighed.shared, "in plain text and 50 on a connection"
	}
	return []string{fmt.Sprintf("istiod's CPU time is that with simulated sidecars: with as many real ones on the same machine it spent %.2f times as much (95%% interval %.2f to %.2f, 16 sidecars %s; the study simulated-against-real measures it here)",
		w.estimate, w.low, w.high, how)}
}
