package findings

import (
	"math"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/kinds/resilience"
	"github.com/meshtrial/meshtrial/record"
)

// gateways returns the gateway's pods with the connections that they dropped. A pod that serves a
// connection for each request closes each after its answer; any other that it closes while it is
// not being stopped is dropped.
func (s *trialScenario) gateways() []record.ScenarioGateway {
	levels, err := resilience.LevelsOf(s.trial.Cell)
	var out []record.ScenarioGateway
	for _, g := range s.trial.Scenario.Gateways {
		g.Dropped = g.Closed
		if err == nil && !levels.KeepAlive {
			g.Dropped = max(0, g.Closed-g.Requests)
		}
		out = append(out, g)
	}
	return out
}

// dropped returns the connections that all pods of the gateway dropped; NaN without a gateway.
func dropped(s *trialScenario) float64 {
	if len(s.trial.Scenario.Gateways) == 0 {
		return math.NaN()
	}
	n := int64(0)
	for _, g := range s.gateways() {
		n += g.Dropped
	}
	return float64(n)
}

// dropping names the pods that dropped connections.
func dropping(o *analysis.Observations) []note.Note {
	var out []note.Note
	for i := range o.Plan.Cells {
		for _, t := range o.Valid(i) {
			s := scenarioOfTrial(o, t)
			if s.summary == nil {
				continue
			}
			for _, g := range s.gateways() {
				if g.Dropped > 0 {
					out = append(out, noteDropping.Of(g.Pod, t.ID, g.Dropped, g.Connections, g.Requests).At(o.Plan.Label(o.Plan.Cells[i])))
				}
			}
		}
	}
	return out
}
