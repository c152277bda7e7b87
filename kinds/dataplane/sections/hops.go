package sections

import (
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
)

// hopColumns lists the measures of a request path's terms.
var hopColumns = []struct {
	name, head string
	keep       int
}{
	{"latency_p50", "p50", 9},
	{"latency_p99", "p99", 4},
	{"cpu_pods", "CPU of all pods per request", 8},
	{"cpu_kernel", "of it in the kernel", 6},
	{"cpu_machine", "CPU of the whole machine", 2},
}

// hopTables lists the cost breakdown of the request path.
func hopTables(f record.Findings) []report.Table {
	var out []report.Table
	for _, h := range f.Hops {
		title := "Cost breakdown of the request path"
		if len(h.Cell) > 0 {
			title += " (" + report.LevelWords(f, h.Cell) + ")"
		}
		t := report.Table{Title: title, Columns: []report.Column{{Head: "part"}}}
		var names []string
		largest := map[string]record.Priced{}
		for _, c := range hopColumns {
			var figures []record.Priced
			for _, term := range h.Terms {
				if p, ok := term.Figures[c.name]; ok {
					figures = append(figures, p)
				}
			}
			if len(figures) == 0 {
				continue
			}
			names, largest[c.name] = append(names, c.name), farthest(figures)
			t.Columns = append(t.Columns, report.Column{Head: headWithUnit(c.head, largest[c.name]), Right: true,
				Keep: c.keep})
		}
		t.Columns = append(t.Columns, report.Column{Head: "what it is", Keep: 1})
		for i, term := range h.Terms {
			st := report.StyleNone
			if i == len(h.Terms)-1 {
				st = report.StyleStrong
			}
			row := []report.Text{{S: hopTermWords(term.Name), Style: st}}
			for _, name := range names {
				p, ok := term.Figures[name]
				if !ok || p.Verdict == record.VerdictInvalid {
					row = append(row, report.Text{S: "not valid", Style: report.StyleDim})
					continue
				}
				cell := pricedText(p, largest[name])
				if cell.Style = st; p.Verdict == record.VerdictInconclusive {
					cell.Style = report.StyleDim
				}
				row = append(row, cell)
			}
			t.Rows = append(t.Rows, append(row, report.Text{S: term.Doc, Style: report.StyleDim}))
		}
		t.Notes = append(t.Notes, "Each part is a within-block difference with its 95% interval; in every block the parts and the residual add up to the total. Percentiles are not additive: the residual says by how much.")
		out = append(out, t)
	}
	return out
}

func hopTermWords(name string) string {
	switch name {
	case "path":
		return "path without sidecars"
	case "tls":
		return "TLS"
	case "total":
		return "in all"
	}
	return report.FactorName(name)
}

// hopAnswers describes the breakdown of a request's cost.
func hopAnswers(f record.Findings) []string {
	var out []string
	for _, h := range f.Hops {
		of := ""
		if len(h.Cell) > 0 {
			of = "At " + report.LevelWords(f, h.Cell) + ": "
		}
		told := len(out)
		for _, name := range dataplane.HopMeasures() {
			if says := hopWords(h, name); says != "" {
				out = append(out, of+says)
			}
		}
		if len(out) == told {
			out = append(out, of+"No cost breakdown of the request path: too few blocks have a valid trial of every cell.")
		}
	}
	return out
}

// hopCharts draws the parts of each path, with a switch per figure.
func hopCharts(f record.Findings) []report.Chart {
	var out []report.Chart
	for _, c := range hopColumns {
		for _, h := range f.Hops {
			title := ""
			if len(h.Cell) > 0 {
				title = "At " + report.LevelWords(f, h.Cell)
			}
			var rows []report.IntervalRow
			for i, term := range h.Terms {
				look := report.Look{Color: report.StackColor(i%5 + 1)}
				switch term.Name {
				case "residual":
					look = report.Look{Color: "series-6", Dash: 1}
				case "total":
					look = report.Look{Color: "series-0", Dash: 2}
				}
				if p, ok := term.Figures[c.name]; ok && p.Verdict != record.VerdictInvalid {
					row := pricedRow(hopTermWords(term.Name), p, look)
					row.Hollow = p.Verdict == record.VerdictInconclusive
					rows = append(rows, row)
				}
			}
			if len(rows) > 0 {
				out = append(out, pricedChart("Cost breakdown of the request path: "+c.head, title, c.head,
					report.Option{Switch: "figure", Choice: c.head}, rows))
			}
		}
	}
	return out
}
