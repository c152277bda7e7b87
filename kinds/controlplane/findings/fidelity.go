package findings

import (
	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
)

// weight is how much more of something istiod needed with real sidecars than
// with as many simulated ones, as the study simulated-against-real found.
type weight struct{ estimate, low, high float64 } // a ratio and its 95% interval

// weighed are the ratios of istiod's CPU time for the same pushes: 16 sidecars
// of either kind, 300 Services, istiod 1.31, five blocks on a machine of two
// cores that others used too. docs/method.md says what they come from. Run the
// study and put its answer here when the simulator or the mesh's release changes.
var weighed = struct{ own, answering, shared weight }{
	own:       weight{1.18, 1.10, 1.28},
	answering: weight{1.11, 1.00, 1.24},
	shared:    weight{1.34, 1.21, 1.48},
}

// sharedStreams is how many sidecars shared a connection where that was weighed.
const sharedStreams = 50

// remarks warns of costs that come from simulated sidecars: real ones weigh
// more. A study that has real ones alone in some cell compares for itself.
func remarks(o *analysis.Observations) []note.Note {
	s := o.Plan.Study
	if !s.Measured(controlplane.MeasureCost) {
		return nil
	}
	simulated := false
	for i := range o.Plan.Cells {
		for _, t := range o.Valid(i) {
			if t.Control == nil {
				continue
			}
			if n := t.Control.Proxies + t.Control.Gateways + t.Control.Ztunnels; n > 0 {
				simulated = true
			} else if t.Control.RealProxies > 0 {
				return nil
			}
		}
	}
	if !simulated {
		return nil
	}
	w, how := weighed.own, "over mutual TLS, each on a connection of its own"
	switch c := controlplane.Of(s); {
	case c.Security == controlplane.SecurityPlaintext && c.StreamsPerConnection == sharedStreams:
		w, how = weighed.shared, "in plain text, 50 on a connection"
	case c.Security != controlplane.SecurityMTLS || c.StreamsPerConnection > 1:
		return []note.Note{noteSimulatedElse.Of()}
	case c.AnswerAfter > 0:
		w, how = weighed.answering, how+", that answer after 20 ms"
	}
	return []note.Note{noteSimulated.Of(w.estimate, how, w.low, w.high)}
}
