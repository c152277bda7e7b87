package report

import (
	"fmt"
	"html"
	"io"
	"math"
	"strings"

	"github.com/meshtrial/meshtrial/advise/capacity/model"
	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/report/plot"
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

// RenderCapacityPage writes one HTML file with plots: what was measured and what is
// published, beside what the model says of it.
func RenderCapacityPage(w io.Writer, p CapacityPage) error {
	var b strings.Builder
	if len(p.Cells)+len(p.HeldOut) > 0 {
		measuredPart(&b, p)
	}
	if len(p.Published) > 0 {
		publishedPart(&b, p.Published)
	}
	if len(p.Notes) > 0 {
		b.WriteString("<h2>Notes</h2>\n<ul>\n")
		for _, n := range p.Notes {
			fmt.Fprintf(&b, "<li>%s</li>\n", html.EscapeString(clean(n.String())))
		}
		b.WriteString("</ul>\n")
	}
	_, err := io.WriteString(w, plot.Page(clean(p.Title), b.String()))
	return err
}

func measuredPart(b *strings.Builder, p CapacityPage) {
	b.WriteString("<h2>Predicted against measured</h2>\n<p class=\"key\">")
	if len(p.Cells) > 0 {
		b.WriteString(`<span><b class="c">○</b> cells, each predicted by a fit without it</span>`)
	}
	if len(p.HeldOut) > 0 {
		b.WriteString(`<span><b class="h">●</b> cells that no fit was shown, with 90% intervals</span>`)
	}
	b.WriteString("<span>Dashes: they agree. Band: off by 15% at most.</span></p>\n<div class=\"plots\">\n")
	for _, d := range model.Outputs {
		marks := append(marksOf(p.Cells, d.Name, "cell"), marksOf(p.HeldOut, d.Name, "heldout")...)
		if len(marks) > 0 {
			b.WriteString(plot.Scatter(capacityWords[d.Name], offBy(marks), plotScale(d.Unit), marks) + "\n")
		}
	}
	b.WriteString("</div>\n")
	if words := coverage(p.HeldOut); words != "" {
		fmt.Fprintf(b, "<p>%s</p>\n", html.EscapeString(words))
	}
	all := append(append([]model.Cell{}, p.Cells...), p.HeldOut...)
	pageTable(b, cellsTable("", all))
}

// plotScale writes the values of a unit at an axis.
func plotScale(unit string) plot.Scale {
	return func(largest float64) (func(v float64) string, string) {
		s := ScaleFor(unitless(unit), largest)
		return func(v float64) string {
			if v /= s.Div; v >= 100 {
				return Count(int(math.Round(v)))
			}
			return short(v)
		}, s.Unit
	}
}

// marksOf are the points of an output.
func marksOf(cells []model.Cell, output, class string) []plot.Point {
	var out []plot.Point
	for _, c := range cells {
		for _, a := range c.Outputs {
			if a.Output != output || !(a.Measured > 0) || !(a.Predicted > 0) {
				continue
			}
			s := ScaleFor(unitless(a.Unit), math.Max(a.Measured, a.Predicted))
			out = append(out, plot.Point{X: a.Measured, Y: a.Predicted, Low: a.Low, High: a.High, Class: class,
				Title: fmt.Sprintf("%s sidecars, %s, %s changes/s: measured %s, predicted %s", Count(c.Proxies), words.Plural(c.Services, "service"), Fixed(c.Rate, 2), s.Value(a.Measured), s.Value(a.Predicted))})
		}
	}
	return out
}

// offBy says how far points are off, those held out apart.
func offBy(marks []plot.Point) string {
	off := map[string][]float64{}
	for _, m := range marks {
		off[m.Class] = append(off[m.Class], math.Abs(m.Y/m.X-1))
	}
	var parts []string
	for _, part := range []struct{ class, words string }{{"cell", "cells"}, {"heldout", "held out"}} {
		if len(off[part.class]) > 0 {
			parts = append(parts, part.words+" "+percentText(stat.Median(off[part.class])))
		}
	}
	return "median error: " + strings.Join(parts, ", ")
}

func publishedPart(b *strings.Builder, rows []model.Published) {
	b.WriteString("<h2>Published sizes</h2>\n<p class=\"key\"><span><b class=\"p\">◆</b> published</span><span><b class=\"h\">●</b> the model, with its 90% interval</span></p>\n")
	for _, d := range model.Outputs {
		var whole, each []plot.Row
		for _, r := range rows {
			if r.Output != d.Name {
				continue
			}
			row := plot.Row{Label: clean(r.Source + ": " + r.Claim), Published: r.Figure, Estimate: r.Model.Estimate, Low: r.Model.Low, High: r.Model.High,
				PublishedText: figure(r.Unit, r.Figure), ModelsText: spanned(r.Unit, r.Model)}
			whole = append(whole, row)
			n := float64(r.Mesh.Proxies)
			row.Published, row.Estimate, row.Low, row.High = row.Published/n, row.Estimate/n, row.Low/n, row.High/n
			row.PublishedText, row.ModelsText = figure(r.Unit, row.Published), spanned(r.Unit, model.Interval{Estimate: row.Estimate, Low: row.Low, High: row.High})
			each = append(each, row)
		}
		if len(whole) == 0 {
			continue
		}
		b.WriteString("<div class=\"plots\">" + plot.Beside(capacityWords[d.Name], plotScale(d.Unit), whole) + "</div>\n")
		if d.Name == model.OutMemory {
			b.WriteString("<div class=\"plots\">" + plot.Beside("memory of a replica for each sidecar", plotScale(d.Unit), each) + "</div>\n")
		}
	}
	pageTable(b, publishedTable(rows))
}

// pageTable writes a table as HTML.
func pageTable(b *strings.Builder, t Table) {
	var heads []string
	for _, c := range t.Columns {
		heads = append(heads, clean(c.Head))
	}
	var rows [][]string
	for _, row := range t.Rows {
		var cells []string
		for _, cell := range row {
			cells = append(cells, clean(cell.S))
		}
		rows = append(rows, cells)
	}
	b.WriteString(plot.Table(heads, rows))
}
