package assess

import (
	"testing"

	"github.com/meshtrial/meshtrial/advise/advice"
	"github.com/meshtrial/meshtrial/observe/signals"
)

// The model has the services that istiod counts, ServiceEntries among them, or else those that are listed.
func TestModelledServices(t *testing.T) {
	limits := &advice.Report{Values: []advice.Value{{Name: advice.QuantityProxies, Value: 10}, {Name: advice.QuantityUpdates, Value: 1}, {Name: advice.QuantityReplicas, Value: 1}, {Name: advice.QuantityCPUs, Value: 2}}}
	counted := &signals.Reading{Signals: []signals.Value{{Key: "services", Status: signals.StatusOK, Value: new(120.0)}}}
	for name, c := range map[string]struct {
		e    Evidence
		want int
	}{
		"listed":  {Evidence{Limits: limits, Objects: map[string]int{"Service": 7}}, 7},
		"counted": {Evidence{Limits: limits, Objects: map[string]int{"Service": 7}, Signals: counted}, 120},
		"alone":   {Evidence{Limits: limits, Signals: counted}, 120},
		"neither": {Evidence{Limits: limits, Signals: &signals.Reading{}}, 0},
	} {
		a := Assess(c.e)
		m, err := a.modelled(c.e)
		if m.Services != c.want || (err == nil) != (c.want > 0) {
			t.Errorf("%s: %d services, %v", name, m.Services, err)
		}
	}
}
