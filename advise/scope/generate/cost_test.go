package generate

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/advise/capacity/model"
	"github.com/meshtrial/meshtrial/record"
)

// Memory and CPU come from what was measured, with its interval, or are said not to
// be predicted, and why.
func TestCosts(t *testing.T) {
	p := shop(t).generate(Options{}).Saving
	if err := p.Costs(Bases{}); err != nil {
		t.Fatal(err)
	}
	if len(p.Resources) != 5 {
		t.Fatalf("%+v", p.Resources)
	}
	for _, c := range p.Resources {
		if c.Now != nil || c.After != nil || c.Less != nil || !strings.Contains(c.Not, "given") {
			t.Errorf("%+v", c)
		}
	}
	units := &record.Findings{Run: "sizes", Findings: []record.Finding{{Name: unitMemory, Estimate: 1000, Low: 800, High: 1300, Unit: "bytes/cluster"}, {Name: unitCPU, Estimate: 3, Low: -1, High: 6, Unit: "ns/request/cluster"}}}
	if err := p.Costs(Bases{Units: units}); err != nil {
		t.Fatal(err)
	}
	fewer := float64(p.Now.Clusters - p.After.Clusters)
	if c := p.Resources[0]; fewer <= 0 || *c.Less != (model.Interval{Estimate: 1000 * fewer, Low: 800 * fewer, High: 1300 * fewer}) || !strings.Contains(c.Basis, "run sizes") {
		t.Errorf("%+v of %g clusters", c, fewer)
	}
	if c := p.Resources[1]; c.Less.Low != -fewer/3 || c.Less.High != 2*fewer { // of 3 sidecars
		t.Errorf("%+v", c)
	}
	for _, bad := range []*record.Findings{{Run: "other"}, {Run: "sizes", Findings: []record.Finding{{Name: unitMemory, Verdict: record.VerdictInvalid}}}} {
		if err := p.Costs(Bases{Units: bad}); err == nil || !strings.Contains(err.Error(), unitMemory) {
			t.Error(err)
		}
	}
}

// Sidecars that let in more, for who was cut off, cost more: nothing is saved.
func TestCostsOfMore(t *testing.T) {
	p := Prediction{Proxies: 2, Now: Load{Clusters: 10}, After: Load{Clusters: 14}}
	if err := p.Costs(Bases{Units: &record.Findings{Findings: []record.Finding{{Name: unitMemory, Estimate: 100, Low: 90, High: 110}, {Name: unitCPU, Estimate: 1, Low: 0, High: 2}}}}); err != nil {
		t.Fatal(err)
	}
	if c := p.Resources[0]; *c.Less != (model.Interval{Estimate: -400, Low: -440, High: -360}) {
		t.Errorf("%+v", c)
	}
}

// made is a model with parameters that nothing was measured for.
func made() *model.Model {
	m := &model.Model{Schema: model.Schema, Mix: map[string]float64{model.MixEndpoints: 9, model.MixConfiguration: 1},
		Measured: model.Span{Proxies: [2]float64{1, 300}, Services: [2]float64{1, 300}, Rate: [2]float64{0.1, 6}}}
	v := model.Assumed()
	v[model.MemoryPerPair] = 500
	for i, d := range model.Definitions {
		m.Parameters = append(m.Parameters, model.Fitted{Name: d.Name, Unit: d.Unit, Meaning: d.Meaning, Interval: model.Interval{Estimate: v[i], Low: v[i], High: v[i]}})
	}
	for _, o := range model.Outputs {
		m.Residuals = append(m.Residuals, model.Residual{Output: o.Name, Spread: 0.1, Cells: 6})
	}
	return m
}

// What istiod takes follows what proxies see.
func TestCostsOfIstiod(t *testing.T) {
	p := Prediction{Proxies: 200, Services: 100, Now: Load{Pushes: 200}, After: Load{Pushes: 10}}
	mesh := model.Default()
	mesh.Rate = 1
	if err := p.Costs(Bases{Model: made(), Mesh: mesh}); err != nil {
		t.Fatal(err)
	}
	for _, c := range p.Resources[2:] {
		if c.Now == nil || c.After == nil || c.After.Estimate >= c.Now.Estimate || c.Now.Low > c.Now.Estimate || c.Now.High < c.Now.Estimate || !strings.Contains(c.Basis, "1 changes a second") {
			t.Errorf("%+v %+v %+v", c, c.Now, c.After)
		}
	}
	if p.Resources[2].What != CostIstiodMemory || p.Resources[0].Not == "" {
		t.Errorf("%+v", p.Resources)
	}
}
