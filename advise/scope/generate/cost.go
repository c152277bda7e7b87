package generate

import (
	"fmt"
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/advise/capacity/model"
	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/record"
)

// Cost is a resource that follows what proxies hold and what istiod pushes. It is
// predicted from what was measured elsewhere, or not at all.
type Cost struct {
	What string `json:"what"`
	Unit string `json:"unit"`
	// Now and After are all of it, Less what is saved, where that alone is known.
	Now   *model.Interval `json:"now,omitempty"`
	After *model.Interval `json:"after,omitempty"`
	Less  *model.Interval `json:"less,omitempty"`
	// Basis says from what, Not why it was not predicted.
	Basis string `json:"basis,omitempty"`
	Not   string `json:"not_predicted,omitempty"`
}

// What costs are of.
const (
	CostProxyMemory  = "memory of all sidecars"
	CostProxyCPU     = "a sidecar's CPU for each request, in the mean"
	CostIstiodMemory = "memory of a replica of istiod"
	CostIstiodCPU    = "CPU of istiod"
	CostIstiodPushes = "pushes of istiod"
)

// Findings that say what a cluster costs a sidecar (study sidecar-size).
const (
	unitMemory = "memory_server_proxy_per_cluster"
	unitCPU    = "cpu_server_proxy_per_cluster"
)

// Bases are what costs are predicted from; each may be missing.
type Bases struct {
	// Units are findings of a run of sidecar-size, Model that of a control plane,
	// with Mesh saying how often configuration changes and what istiod has.
	Units *record.Findings
	Model *model.Model
	Mesh  model.Mesh
}

// Costs predicts memory and CPU by measured unit costs. It is an error if a basis
// that is given does not say what it is given for.
func (p *Prediction) Costs(b Bases) error {
	units := []Cost{{What: CostProxyMemory, Unit: "bytes"}, {What: CostProxyCPU, Unit: "ns"}}
	fewer := float64(p.Now.Clusters - p.After.Clusters)
	for i, name := range []string{unitMemory, unitCPU} {
		c := &units[i]
		if b.Units == nil {
			c.Not = "no unit costs given (--unit-costs, a run of sidecar-size)"
			continue
		}
		f, err := finding(b.Units, name)
		if err != nil {
			return err
		}
		by := fewer
		if name == unitCPU {
			by /= float64(max(1, p.Proxies))
		}
		c.Less = &model.Interval{Estimate: by * f.Estimate, Low: math.Min(by*f.Low, by*f.High), High: math.Max(by*f.Low, by*f.High)}
		c.Basis = fmt.Sprintf("%.4g (%.4g to %.4g) %s in run %s, times %s clusters fewer; their listeners, routes and endpoints are not counted, and the clusters of that study have neither endpoints nor TLS", f.Estimate, f.Low, f.High, f.Unit, b.Units.Run, number(by))
	}
	p.Resources = units
	return p.istiod(b)
}

func number(v float64) string { return fmt.Sprintf("%.0f", v) }

func finding(f *record.Findings, name string) (record.Finding, error) {
	i := slices.IndexFunc(f.Findings, func(one record.Finding) bool { return one.Name == name })
	if i < 0 || f.Findings[i].Verdict == record.VerdictInvalid {
		return record.Finding{}, errs.WithHint(errs.Usage("run %s has no finding %s: it says not what a cluster costs", f.Run, name), "meshtrial run sidecar-size measures it")
	}
	return f.Findings[i], nil
}

// istiod predicts what a control plane takes, with what proxies see now and then.
func (p *Prediction) istiod(b Bases) error {
	costs := []Cost{{What: CostIstiodMemory, Unit: "bytes"}, {What: CostIstiodCPU, Unit: "cores"}, {What: CostIstiodPushes, Unit: "1/s"}}
	if b.Model == nil {
		for i := range costs {
			costs[i].Not = "no model given (--model, which meshtrial capacity fit writes)"
		}
		p.Resources = append(p.Resources, costs...)
		return nil
	}
	var said [2]*model.Prediction
	for i, load := range []Load{p.Now, p.After} {
		m := b.Mesh
		m.Proxies, m.Services = p.Proxies, p.Services
		if len(m.Mix) == 0 {
			m.Mix = b.Model.Mix
		}
		if p.Proxies > 0 {
			m.Visible = min(1, max(0.001, load.Pushes/float64(p.Proxies)))
		}
		one, err := b.Model.Predict(m, model.Options{Seed: 1})
		if err != nil {
			return err
		}
		said[i] = one
	}
	basis := fmt.Sprintf("model of %s, %g changes a second; 90%% intervals, each by itself", words.Plural(len(b.Model.Runs), "run"), b.Mesh.Rate)
	if beyond := max(said[0].Times, said[1].Times); beyond > 1 {
		basis += fmt.Sprintf("; %.1f times beyond what was measured", beyond)
	}
	if len(said[0].Assumed) > 0 {
		basis += fmt.Sprintf("; %s assumed", words.Plural(len(said[0].Assumed), "parameter"))
	}
	for i, name := range []string{model.OutMemory, model.OutCPU, model.OutPushes} {
		now, after := said[0].Output(name), said[1].Output(name)
		costs[i].Now, costs[i].After, costs[i].Basis = &now, &after, basis
	}
	p.Resources = append(p.Resources, costs...)
	return nil
}
