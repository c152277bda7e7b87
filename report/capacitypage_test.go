package report

import (
	"testing"

	"github.com/meshtrial/meshtrial/advise/capacity/model"
)

// Each output has a dot for each cell that was measured and predicted, and a row for each
// published size.
func TestCapacityPage(t *testing.T) {
	cell := func(measured, predicted, low, high float64) model.Cell {
		return model.Cell{Proxies: 300, Services: 50, Rate: 2, Outputs: []model.Against{
			{Output: model.OutCPU, Unit: "cores", Measured: measured, Predicted: predicted, Low: low, High: high},
			{Output: model.OutMemory, Unit: "bytes", Measured: 0, Predicted: 1e9}}}
	}
	p := CapacityPage{Cells: []model.Cell{cell(0.5, 0.6, 0, 0), cell(1, 0.9, 0, 0)}, HeldOut: []model.Cell{cell(2, 1, 0.5, 3)},
		Published: []model.Published{{Source: "s", Claim: "c", Output: model.OutMemory, Unit: "bytes", Figure: 1.5e9, Model: model.Interval{Estimate: 1e9, Low: 5e8, High: 3e9}}}}.page()
	if len(p.Sections) != 2 || len(p.Sections[0].Charts) != 1 || len(p.Sections[1].Charts) != 1 {
		t.Fatalf("%+v", p.Sections)
	}
	c := p.Sections[0].Charts[0]
	if d := c.Scatter.Dots; len(d) != 3 || d[0].Y != [3]float64{0.6, 0.6, 0.6} || d[2].X != [3]float64{2, 2, 2} || d[2].Y != [3]float64{1, 0.5, 3} ||
		c.Title != "Istiod's CPU; median error: cells 15.0%, held out 50.0%" {
		t.Errorf("%s: %+v", c.Title, d)
	}
	if r := p.Sections[1].Charts[0].Intervals.Rows; len(r) != 1 || *r[0].Mark != 1500 || r[0].Low != 500 || r[0].High != 3000 {
		t.Errorf("%+v", r)
	}
}
