package app

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/advise/advice"
	"github.com/meshtrial/meshtrial/advise/assess"
	"github.com/meshtrial/meshtrial/observe/signals"
	"github.com/meshtrial/meshtrial/testing/must"
)

// The model that ships predicts a mesh like those that it was measured for, and says of any other that it lies
// outside. A user's own replaces it.
func TestShippedCapacityModel(t *testing.T) {
	m, err := shippedModel()
	must.OK(t, err)
	if len(m.Runs) != 1 || m.Runs[0].Machine == "" || m.Runs[0].Istiod == "" || m.Runs[0].Trials < 6 {
		t.Fatalf("%+v", m.Runs)
	}
	branch, _, built := strings.Cut(m.Runs[0].Istiod, "-")
	if !built {
		t.Fatalf("istiod %s was not built from source", m.Runs[0].Istiod)
	}
	e := func(proxies float64, services int) assess.Evidence {
		return assess.Evidence{Istiod: branch + ".2", Objects: map[string]int{"Service": services}, Proxies: []assess.Proxy{{Kind: assess.Istiod}},
			Limits: &advice.Report{Values: []advice.Value{{Name: advice.QuantityProxies, Value: proxies}, {Name: advice.QuantityUpdates, Value: 2}, {Name: advice.QuantityReplicas, Value: 1}, {Name: advice.QuantityCPUs, Value: m.Measured.Cores[1]}}}}
	}
	writes := func(a assess.Assessment) bool {
		return slices.ContainsFunc(a.Settle, func(s assess.Study) bool { return s.Name == assess.StudyCapacity })
	}
	a, err := Assessment{}.conclude(e(200, 200), nil)
	must.OK(t, err)
	if c := a.Capacity; c == nil || !c.Shipped || c.Extrapolates() || len(c.Below) > 0 || !assess.NoOwnModel.In(a.Unknown) || assess.OtherModel.In(a.Unknown) || !writes(a) {
		t.Errorf("%+v, %v", a.Capacity, a.Unknown)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if _, err := (Assessment{}).concluded(stopped, e(200, 200), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("it predicts after an interrupt: %v", err)
	}
	large := e(3000, 20)
	large.Istiod = "1.28.0"
	a, err = Assessment{}.conclude(large, nil)
	must.OK(t, err)
	if c := a.Capacity; c == nil || !c.Extrapolates() || len(c.Below) != 1 || !assess.OtherModel.In(a.Unknown) {
		t.Errorf("outside: %+v, %v", a.Capacity, a.Unknown)
	}
	counted := e(200, 0)
	counted.Objects, counted.Signals = nil, &signals.Reading{Signals: []signals.Value{{Key: "services", Status: signals.StatusOK, Value: new(700.0)}}}
	a, err = Assessment{}.conclude(counted, nil)
	must.OK(t, err)
	if !slices.ContainsFunc(a.Settle, func(s assess.Study) bool {
		return s.Name == assess.StudyCapacity && strings.Contains(s.File, "this-mesh: {proxies: 80, services: 700}")
	}) {
		t.Errorf("the study has other services than istiod counts: %v", a.Settle)
	}
	a, err = Assessment{Model: m}.conclude(e(200, 200), nil)
	must.OK(t, err)
	if a.Capacity == nil || a.Capacity.Shipped || assess.NoOwnModel.In(a.Unknown) || writes(a) {
		t.Errorf("the user's own: %+v, %v", a.Capacity, a.Unknown)
	}
	if a, err = (Assessment{Section: assess.SectionTraffic}).conclude(e(200, 200), nil); err != nil || a.Capacity != nil {
		t.Errorf("of traffic alone: %+v, %v", a.Capacity, err)
	}
}
