package assess

import (
	"fmt"

	"github.com/meshtrial/meshtrial/advise/advice"
	"github.com/meshtrial/meshtrial/advise/capacity/model"
)

// lateAfter is the p99 of convergence, in seconds, beyond which changes count as late.
const lateAfter = 5

// Capacity is how far istiod is from its limits, by a capacity model.
type Capacity struct {
	*model.Prediction
	// Shipped says that the model ships with the program. Runs are those that it was fitted to.
	Shipped bool           `json:"model_shipped,omitempty"`
	Runs    []model.Source `json:"model_runs"`
	Notes   []model.Note   `json:"model_notes,omitempty"`
}

// capacity predicts this mesh by the model, and how far it is from the limits.
func (a *Assessment) capacity(e Evidence) {
	if e.Model == nil {
		return
	}
	m, err := a.modelled(e)
	if err != nil {
		a.add(NoCapacity.Of(err))
		return
	}
	m.Mix = e.Model.Mix
	o := model.Options{Seed: 1}
	p, err := e.Model.Predict(m, o)
	if err == nil {
		p.Loss, err = e.Model.Loss(m, o)
	}
	if err == nil && m.Replicas > 1 {
		p.Storm, err = e.Model.Storm(m, o)
	}
	if err == nil {
		p.Limits, err = e.Model.Limits(m, lateAfter, o)
	}
	if err != nil {
		a.add(NoCapacity.Of(err))
		return
	}
	a.Capacity = &Capacity{p, e.ModelShipped, e.Model.Runs, e.Model.Notes}
	if e.ModelShipped {
		a.add(NoOwnModel.Of())
	}
	for _, r := range e.Model.Runs {
		if r.Istiod != "" && a.Mesh.Istiod != "" && !SameVersion(r.Istiod, a.Mesh.Istiod) {
			a.add(OtherModel.Of(r.Run, r.Istiod, a.Mesh.Istiod))
		}
	}
}

// modelled is this mesh as the model takes it.
func (a *Assessment) modelled(e Evidence) (model.Mesh, error) {
	m := model.Default()
	if e.Limits == nil {
		return m, fmt.Errorf("istiod was not watched")
	}
	values := map[string]float64{}
	for _, v := range e.Limits.Values {
		values[v.Name] = v.Value
	}
	services, known := e.Objects["Service"]
	if e.Signals != nil {
		if v, _ := e.Signals.Find("services"); v.Value != nil { // istiod's count has ServiceEntries too, as the model does
			services, known = int(*v.Value), true
		}
	}
	if !known {
		return m, fmt.Errorf("Services were not listed")
	}
	m.Services, m.Namespaces = services, max(1, a.Mesh.Namespaces)
	for _, one := range []struct {
		name string
		set  func(v float64)
	}{
		{advice.QuantityProxies, func(v float64) { m.Proxies = int(v) }},
		{advice.QuantityUpdates, func(v float64) { m.Rate = v }},
		{advice.QuantityReplicas, func(v float64) { m.Replicas = int(v) }},
		{advice.QuantityCPUs, func(v float64) { m.Cores = v / float64(max(1, m.Replicas)) }},
	} {
		v, known := values[one.name]
		if known && v == 0 && one.name == advice.QuantityUpdates && e.WindowS > 0 {
			v = 1 / e.WindowS // a change less often than that goes unseen
		}
		if !known || !(v > 0) {
			return m, fmt.Errorf("%s is unknown or 0", one.name)
		}
		one.set(v)
	}
	for name, to := range map[string]*float64{advice.QuantityDebounceAfter: &m.DebounceAfter, advice.QuantityDebounceMax: &m.DebounceMax,
		advice.QuantityConnectionAge: &m.ConnectionAge, advice.QuantityRequestLimit: &m.ConnectLimit} {
		if v, known := values[name]; known {
			*to = v
		}
	}
	if v, known := values[advice.QuantityThrottle]; known {
		m.Throttle = int(v)
	}
	return m, nil
}
