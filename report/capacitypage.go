package report

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/meshtrial/meshtrial/advise/capacity/model"
	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/stat"
)

// CapacityPage is what the page of a capacity model shows; what is empty is left out.
type CapacityPage struct {
	Title string
	// Cells were predicted by fits without them, HeldOut were shown to no fit at all.
	Cells, HeldOut []model.Cell
	Published      []model.Published
	Notes          []model.Note
}

// RenderCapacityPage writes one HTML file: what was measured and what is published, beside
// what the model says of it.
func RenderCapacityPage(w io.Writer, p CapacityPage) error { return writePage(w, p.page()) }

func (p CapacityPage) page() Page {
	out := Page{Title: p.Title, Warnings: texts(p.Notes), Footer: selfContained}
	if len(p.Cells)+len(p.HeldOut) > 0 {
		s := PageSection{Name: "measured", Title: "Predicted against measured", Lead: coverage(p.HeldOut)}
		for _, d := range model.Outputs {
			if c := p.against(d); c != nil {
				s.Charts = append(s.Charts, *c)
			}
		}
		s.Tables = withRows(cellsTable("Each cell by a fit without it", p.Cells), cellsTable("Shown to no fit", p.HeldOut))
		out.Sections = append(out.Sections, s)
	}
	if len(p.Published) > 0 {
		s := PageSection{Name: "published", Title: "Published sizes", Tables: []Table{publishedTable(p.Published)}}
		for _, d := range model.Outputs {
			if c := publishedSizes(d, p.Published); c != nil {
				s.Charts = append(s.Charts, *c)
			}
		}
		out.Sections = append(out.Sections, s)
	}
	return out
}

// against draws what was predicted of an output over what was measured; nil if no cell has it.
func (p CapacityPage) against(d model.OutputDef) *Chart {
	var dots []Dot
	var off []string
	largest := 0.0
	for _, of := range []struct {
		words string
		cells []model.Cell
		look  Look
	}{{"cells", p.Cells, Look{Color: "series-1"}}, {"held out", p.HeldOut, Look{Color: "series-2"}}} {
		var errors []float64
		for _, c := range of.cells {
			for _, a := range c.Outputs {
				if a.Output != d.Name || !(a.Measured > 0) || !(a.Predicted > 0) {
					continue
				}
				one := Dot{X: [3]float64{a.Measured, a.Measured, a.Measured}, Y: [3]float64{a.Predicted, a.Predicted, a.Predicted}, Look: of.look,
					Text: fmt.Sprintf("%s, %s, %s changes/s: measured %s, predicted %s", words.Plural(c.Proxies, "proxy"), words.Plural(c.Services, "service"),
						Fixed(c.Rate, 2), figure(a.Unit, a.Measured), figure(a.Unit, a.Predicted))}
				if a.High > 0 {
					one.Y[1], one.Y[2] = a.Low, a.High
				}
				dots, errors = append(dots, one), append(errors, math.Abs(a.Predicted/a.Measured-1))
				largest = math.Max(largest, math.Max(a.Measured, a.Predicted))
			}
		}
		if len(errors) > 0 {
			off = append(off, of.words+" "+percentText(stat.Median(errors)))
		}
	}
	if len(dots) == 0 {
		return nil
	}
	s := ScaleFor(unitless(d.Unit), largest)
	for i := range dots {
		for k := range dots[i].X {
			dots[i].X[k], dots[i].Y[k] = dots[i].X[k]/s.Div, dots[i].Y[k]/s.Div
		}
	}
	return &Chart{Name: capacityWords[d.Name] + ": predicted over measured", Title: UpperFirst(capacityWords[d.Name]) + "; median error: " + strings.Join(off, ", "),
		Legend:  []Key{{Text: "a cell, by a fit without it", Color: "series-1"}, {Text: "a cell that no fit was shown, with its 90% interval", Color: "series-2"}},
		Scatter: &Scatter{X: on(s, "measured", AxisLog), Y: on(s, "predicted", AxisLog), Same: true, Dots: dots}}
}

// publishedSizes draws published figures of an output beside the model's; nil if there are
// none.
func publishedSizes(d model.OutputDef, all []model.Published) *Chart {
	largest := 0.0
	for _, r := range all {
		if r.Output == d.Name {
			largest = math.Max(largest, math.Max(r.Figure, r.Model.Estimate))
		}
	}
	s := ScaleFor(unitless(d.Unit), largest)
	rows := Intervals{X: on(s, capacityWords[d.Name], AxisLog)}
	for _, r := range all {
		if r.Output == d.Name {
			mark := r.Figure / s.Div
			rows.Rows = append(rows.Rows, IntervalRow{Label: r.Source + ": " + r.Claim, Look: Look{Color: "series-2"}, Mark: &mark,
				Estimate: r.Model.Estimate / s.Div, Low: r.Model.Low / s.Div, High: r.Model.High / s.Div,
				Text: figure(r.Unit, r.Figure) + " → " + spanned(r.Unit, r.Model)})
		}
	}
	if len(rows.Rows) == 0 {
		return nil
	}
	return &Chart{Name: capacityWords[d.Name] + ": published, and the model with its 90% interval",
		Legend: []Key{{Text: "published", Shape: KeyMark}}, Intervals: &rows}
}
