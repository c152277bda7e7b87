package findings

import (
	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
)

// weight is the ratio of what istiod needed with real sidecars to what it needed with as many
// simulated ones, as found by the study simulated-against-real.
type weight struct{ estimate, low, high float64 } // a ratio and its 95% interval

// weighed holds the ratios of istiod's CPU time for the same pushes: 16 sidecars of either kind,
// 300 Services, istiod 1.31, five blocks on a shared machine with two cores. docs/method.md
// describes their origin. Run the study and update these values when the simulator or the mesh's
// release changes.
var weighed = struct{ own, answering, shared weight }{
	own:       weight{1.18, 1.10, 1.28},
	answering: weight{1.11, 1.00, 1.24},
	shared:    weight{1.34, 1.21, 1.48},
}

// sharedStreams is the number of sidecars that shared a connection in that study.
const sharedStreams = 50

// remarks warns of costs that come from simulated sidecars, since real ones cost more. A study with
// only real sidecars in some cell makes the comparison itself.
func remarks(o *analysis.Observations) []note.Note {
	s := o.Plan.Study
	if !s.Measured(controlplane.MeasureCost) {
		return nil
	}
	simulated := false
	for i := range o.Plan.Cells {
		for _, t := range o.Valid(i) {
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
