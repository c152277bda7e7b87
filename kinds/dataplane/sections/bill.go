package sections

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
)

// billColumn is a figure per part in a bill's table.
type billColumn struct {
	name, head string // name of the priced measure
	keep       int
}

// billColumns returns the columns besides a part's rank, name and verdict.
func billColumns() []billColumn {
	out := []billColumn{{dataplane.BillCPU, "CPU per request", 9}, {dataplane.BillShare, "share of the proxies' CPU", 6}}
	for _, p := range record.Proxies {
		out = append(out, billColumn{dataplane.BillCPUOf(p.Part), p.Name, 2})
	}
	return append(out, billColumn{dataplane.BillP50, "p50", 5}, billColumn{dataplane.BillP99, "p99", 3},
		billColumn{dataplane.BillMemory, "idle memory", 4}, billColumn{dataplane.BillMoney, "per month", 7})
}

// billTables lists the costs of each bill's parts, and the savings from removing them.
func billTables(f record.Findings) []report.Table {
	var out []report.Table
	for _, b := range f.Bills {
		of := ""
		if len(b.Cell) > 0 {
			of = " (" + report.LevelWords(f, b.Cell) + ")"
		}
		var sums []record.Priced
		if s := b.Together; s != nil {
			sums = []record.Priced{s.Sum, s.Together, s.Interaction}
		}
		added, largest := billTable("Cost of each part over the base"+of, b.Parts, sums...)
		if s := b.Together; s != nil && len(added.Rows) > 0 {
			for _, line := range []struct {
				name string
				of   record.Priced
			}{
				{"sum of " + words.Plural(len(s.Parts), "part"), s.Sum},
				{"all together", s.Together},
				{"beyond the sum", s.Interaction},
			} {
				row := make([]report.Text, len(added.Columns))
				row[1], row[2] = report.Text{S: line.name, Style: report.StyleStrong}, pricedText(line.of, largest)
				row[len(row)-1] = report.Verdict(line.of.Verdict)
				added.Rows = append(added.Rows, row)
			}
			added.Notes = append([]string{sumWords(s)}, added.Notes...)
		}
		removed, _ := billTable("Savings from removing each part"+of, b.Removed)
		out = append(out, added, removed)
	}
	return out
}

// billTable lists parts, most expensive first. It also returns the largest figure of its CPU
// column, whose scale the sums will share.
func billTable(title string, parts []record.BillPart, sums ...record.Priced) (report.Table, record.Priced) {
	t := report.Table{Title: title, Columns: []report.Column{{Head: "place", Right: true, Keep: 8}, {Head: "part"}}}
	if len(parts) == 0 {
		return report.Table{}, record.Priced{}
	}
	var names []string
	largest := map[string]record.Priced{}
	for _, c := range billColumns() {
		var figures []record.Priced
		for _, p := range parts {
			if figure, ok := p.Figures[c.name]; ok {
				figures = append(figures, figure)
			}
		}
		if len(figures) == 0 {
			continue
		}
		if c.name == "cpu" {
			figures = append(figures, sums...)
		}
		names, largest[c.name] = append(names, c.name), farthest(figures)
		t.Columns = append(t.Columns, report.Column{Head: headWithUnit(c.head, largest[c.name]), Right: true,
			Keep: c.keep})
	}
	t.Columns = append(t.Columns, report.Column{Head: "verdict", Keep: 1})
	for _, p := range parts {
		row := []report.Text{{S: places(p)}, {S: p.Name}}
		for _, name := range names {
			figure, ok := p.Figures[name]
			if !ok {
				row = append(row, report.Text{S: "–", Style: report.StyleDim})
				continue
			}
			row = append(row, pricedText(figure, largest[name]))
		}
		t.Rows = append(t.Rows, append(row, report.Verdict(p.Figures["cpu"].Verdict)))
	}
	t.Notes = append(t.Notes, fmt.Sprintf("In each column simultaneous 95%% intervals for all %s: Student's t on within-block differences, widened for their number. Parts that cannot be ranked share a rank. Verdicts allow for all differences of the bill.", words.Plural(len(parts), "part")))
	return t, largest["cpu"]
}

// farthest returns the figure whose interval reaches farthest from zero, which sets the column's
// scale.
func farthest(figures []record.Priced) record.Priced {
	return slices.MaxFunc(figures, func(a, b record.Priced) int { return cmp.Compare(reach(a), reach(b)) })
}

func reach(p record.Priced) float64 {
	if p.Verdict == record.VerdictInvalid {
		return 0
	}
	return math.Max(math.Abs(p.Estimate), math.Max(math.Abs(p.Low), math.Abs(p.High)))
}

func headWithUnit(head string, p record.Priced) string {
	s := billScale(p)
	if s.Unit == "" {
		return head
	}
	return head + ", " + strings.TrimSuffix(strings.TrimSuffix(s.Unit, " per request"), " per month")
}

// billScale returns the scale of a column from its largest figure.
func billScale(p record.Priced) report.Scale {
	if strings.HasSuffix(p.Unit, "/month") {
		return report.Scale{Div: 1, Unit: strings.TrimSuffix(p.Unit, "/month")}
	}
	if p.Unit == "us/request" { // one unit throughout: lists are compared
		return report.Scale{Div: 1, Unit: "µs per request"}
	}
	return report.ScaleFor(p.Unit, math.Abs(p.Estimate))
}

// pricedText formats a figure on the scale of the largest of its column.
func pricedText(p, largest record.Priced) report.Text {
	if p.Verdict == record.VerdictInvalid {
		return report.Text{S: "too few", Style: report.StyleDim}
	}
	if strings.HasSuffix(p.Unit, "/month") {
		return report.Text{S: report.WholeInterval(record.Finding{Estimate: p.Estimate, Low: p.Low, High: p.High})}
	}
	return report.Text{S: billScale(largest).Interval(p.Estimate, p.Low, p.High)}
}

// places formats the range of possible ranks of a part.
func places(p record.BillPart) string {
	switch {
	case p.RankLow == 0:
		return "–"
	case p.RankLow == p.RankHigh:
		return strconv.Itoa(p.RankLow)
	}
	return fmt.Sprintf("%d–%d", p.RankLow, p.RankHigh)
}

// billAnswers summarizes a bill: the most expensive part, whether the parts add up, what removing a
// part saves, and which parts cost nothing.
func billAnswers(f record.Findings) []string {
	var out []string
	for _, b := range f.Bills {
		of := ""
		if len(b.Cell) > 0 {
			of = "At " + report.LevelWords(f, b.Cell) + ": "
		}
		for i, p := range b.Parts {
			if i == 0 || p.RankLow == 1 {
				out = append(out, of+partWords(p, false))
			}
		}
		if b.Together != nil {
			out = append(out, of+sumWords(b.Together))
		}
		for _, p := range b.Removed {
			if p.Figures["cpu"].Verdict == record.VerdictReal {
				out = append(out, of+partWords(p, true))
			}
		}
		none := func(parts []record.BillPart) []string {
			var names []string
			for _, p := range parts {
				if cpu := p.Figures["cpu"]; cpu.Verdict != record.VerdictInvalid && cpu.Low <= 0 && cpu.High >= 0 {
					names = append(names, p.Name)
				}
			}
			return names
		}
		if names := none(b.Parts); len(names) > 0 {
			out = append(out, of+"Indistinguishable from zero: "+strings.Join(names, ", ")+".")
		}
		if names := none(b.Removed); len(names) > 0 {
			out = append(out, of+"No significant saving from removing: "+strings.Join(names, ", ")+".")
		}
		if i := slices.IndexFunc(b.Parts, func(p record.BillPart) bool { return p.RankLow == 0 }); i >= 0 {
			out = append(out, of+partWords(b.Parts[i], false))
		}
	}
	return out
}

// billCharts draws the parts of each bill, with a switch per figure.
func billCharts(f record.Findings) []report.Chart {
	var out []report.Chart
	for _, c := range billColumns() {
		if c.name == dataplane.BillShare {
			continue
		}
		for _, b := range f.Bills {
			of := ""
			if len(b.Cell) > 0 {
				of = " (" + report.LevelWords(f, b.Cell) + ")"
			}
			var sums []report.IntervalRow
			if s := b.Together; s != nil && c.name == dataplane.BillCPU {
				for _, line := range []struct {
					name string
					of   record.Priced
				}{{"sum of the parts", s.Sum}, {"all together", s.Together}, {"beyond the sum", s.Interaction}} {
					sums = append(sums, pricedRow(line.name, line.of, report.Look{Color: "series-2", Dash: 1}))
				}
			}
			for _, list := range []struct {
				title string
				parts []record.BillPart
				sums  []report.IntervalRow
			}{{"Cost of each part", b.Parts, sums}, {"Savings from removing each part", b.Removed, nil}} {
				var rows []report.IntervalRow
				for _, p := range list.parts {
					if figure, ok := p.Figures[c.name]; ok && figure.Verdict != record.VerdictInvalid {
						rows = append(rows, pricedRow(places(p)+"  "+p.Name, figure, report.Look{Color: "series-1"}))
					}
				}
				if len(rows) == 0 {
					continue
				}
				out = append(out, pricedChart(list.title+of+": "+c.head, list.title+of, c.head,
					report.Option{Switch: "figure", Choice: c.head}, append(rows, list.sums...)))
			}
		}
	}
	return out
}

// pricedRow returns a row for a figure whose unit [pricedChart] scales together with the others of
// its chart.
func pricedRow(label string, p record.Priced, look report.Look) report.IntervalRow {
	return report.IntervalRow{Label: label, Look: look, Estimate: p.Estimate, Low: p.Low, High: p.High,
		Hollow: p.Verdict != record.VerdictReal && p.Verdict != record.VerdictMeasured, Text: p.Unit}
}

// pricedChart draws figures of one unit. It replaces the rows' Text, their unit, by the formatted
// figure.
func pricedChart(name, title, measure string, option report.Option, rows []report.IntervalRow) report.Chart {
	var all []record.Priced
	for _, r := range rows {
		all = append(all, record.Priced{Estimate: r.Estimate, Low: r.Low, High: r.High, Unit: r.Text})
	}
	largest := farthest(all)
	s := billScale(largest)
	for i, p := range all {
		rows[i].Text = pricedText(p, largest).S
		rows[i].Estimate, rows[i].Low, rows[i].High = p.Estimate/s.Div, p.Low/s.Div, p.High/s.Div
	}
	return report.Chart{Name: name + ", with intervals", Title: title, Options: []report.Option{option},
		Intervals: &report.Intervals{X: report.Axis{Title: headWithUnit(measure, largest), Scale: report.AxisLinear},
			Rows: rows}}
}
