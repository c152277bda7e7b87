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
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/report"
)

// pricedColumn is a column for a priced measure, and its priority in narrow tables.
type pricedColumn struct {
	name, head string
	keep       int
}

// billColumns returns the columns besides a part's rank, name and verdict.
func billColumns() []pricedColumn {
	out := []pricedColumn{{dataplane.BillCPU, "CPU per request", 9}, {dataplane.BillShare, "share of the proxies' CPU", 6}}
	for _, p := range record.Proxies {
		out = append(out, pricedColumn{dataplane.BillCPUOf(p.Part), p.Name, 2})
	}
	return append(out, pricedColumn{dataplane.BillP50, "p50", 5}, pricedColumn{dataplane.BillP99, "p99", 3},
		pricedColumn{dataplane.BillMemory, "idle memory", 4}, pricedColumn{dataplane.BillMoney, "per month", 7})
}

// addPriced adds to a table the columns of the measures that some rows have. It returns their names,
// and the largest figure of each, which sets the column's scale.
func addPriced(t *report.Table, columns []pricedColumn, rows []map[string]record.Priced) (names []string, largest map[string]record.Priced) {
	largest = map[string]record.Priced{}
	for _, c := range columns {
		var figures []record.Priced
		for _, row := range rows {
			if p, ok := row[c.name]; ok {
				figures = append(figures, p)
			}
		}
		if len(figures) > 0 {
			names, largest[c.name] = append(names, c.name), farthest(figures)
			t.Columns = append(t.Columns, right(headWithUnit(c.head, largest[c.name]), c.keep))
		}
	}
	return names, largest
}

// within says at which levels of the other factors a bill or a breakdown is; "" if none vary.
func within(f record.Findings, cell record.Cell, format string) string {
	if len(cell) == 0 {
		return ""
	}
	return fmt.Sprintf(format, report.LevelWords(f, cell))
}

// billTables lists the costs of each bill's parts, and the savings from removing them.
func billTables(f record.Findings) []report.Table {
	var out []report.Table
	for _, b := range f.Bills {
		of := within(f, b.Cell, " (%s)")
		out = append(out, billTable("Cost of each part over the base"+of, b.Parts, b.Together),
			billTable("Savings from removing each part"+of, b.Removed, nil))
	}
	return out
}

type sumLine struct {
	name string
	record.Priced
}

func sumLines(s *record.BillSum) []sumLine {
	if s == nil {
		return nil
	}
	return []sumLine{{"sum of " + words.Plural(len(s.Parts), "part"), s.Sum}, {"all together", s.Together}, {"beyond the sum", s.Interaction}}
}

// billTable lists parts, most expensive first, and their sum.
func billTable(title string, parts []record.BillPart, sum *record.BillSum) report.Table {
	if len(parts) == 0 {
		return report.Table{}
	}
	t := report.Table{Title: title, Columns: []report.Column{right("place", 8), {Head: "part"}}}
	var figures []map[string]record.Priced
	for _, p := range parts {
		figures = append(figures, p.Figures)
	}
	for _, line := range sumLines(sum) {
		figures = append(figures, map[string]record.Priced{dataplane.BillCPU: line.Priced})
	}
	names, largest := addPriced(&t, billColumns(), figures)
	t.Columns = append(t.Columns, report.Column{Head: "verdict", Keep: 1})
	for _, p := range parts {
		row := []report.Text{{S: places(p)}, {S: p.Name}}
		for _, name := range names {
			text := report.Dash
			if figure, ok := p.Figures[name]; ok {
				text = pricedText(figure, largest[name])
			}
			row = append(row, text)
		}
		t.Rows = append(t.Rows, append(row, report.Verdict(p.Figures[dataplane.BillCPU].Verdict)))
	}
	if sum != nil {
		t.Notes = append(t.Notes, sumWords(sum))
	}
	for _, line := range sumLines(sum) {
		row := make([]report.Text, len(t.Columns))
		row[1], row[2] = report.Text{S: line.name, Style: report.StyleStrong}, pricedText(line.Priced, largest[dataplane.BillCPU])
		row[len(row)-1] = report.Verdict(line.Verdict)
		t.Rows = append(t.Rows, row)
	}
	t.Notes = append(t.Notes, fmt.Sprintf("In each column simultaneous 95%% intervals for all %s: Student's t on within-block differences, widened for their number. Parts that cannot be ranked share a rank. Verdicts allow for all differences of the bill.", words.Plural(len(parts), "part")))
	return t
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
	return report.ScaleFor(p.Unit, p.Estimate)
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
		of := within(f, b.Cell, "At %s: ")
		for i, p := range b.Parts {
			if i == 0 || p.RankLow == 1 {
				out = append(out, of+partWords(p, false))
			}
		}
		if b.Together != nil {
			out = append(out, of+sumWords(b.Together))
		}
		for _, p := range b.Removed {
			if p.Figures[dataplane.BillCPU].Verdict == record.VerdictReal {
				out = append(out, of+partWords(p, true))
			}
		}
		none := func(parts []record.BillPart) []string {
			var names []string
			for _, p := range parts {
				if cpu := p.Figures[dataplane.BillCPU]; cpu.Verdict != record.VerdictInvalid && withinZero(cpu) {
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
			of := within(f, b.Cell, " (%s)")
			var sums []report.IntervalRow
			if c.name == dataplane.BillCPU {
				for _, line := range sumLines(b.Together) {
					sums = append(sums, pricedRow(line.name, line.Priced, report.Look{Color: "series-2", Dash: 1}))
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

// span formats a figure of a bill with its interval.
func span(p record.Priced) string {
	if p.Unit == finding.UnitPerRequest { // microseconds throughout, for comparison
		return fmt.Sprintf("%s µs per request (%s to %s)", words.Figures(p.Estimate), words.Figures(p.Low), words.Figures(p.High))
	}
	at, low, high := words.Quantity(p.Estimate, p.Unit), words.Quantity(p.Low, p.Unit), words.Quantity(p.High, p.Unit)
	_, unit, _ := strings.Cut(at, " ")
	short := func(s string) string {
		if number, other, _ := strings.Cut(s, " "); other == unit {
			return number
		}
		return s
	}
	return fmt.Sprintf("%s (%s to %s)", at, short(low), short(high))
}

func withinZero(p record.Priced) bool { return p.Low <= 0 && p.High >= 0 }

// whyNot explains why a figure whose interval excludes zero is not called real.
func whyNot(p record.Priced) string {
	switch p.Reason {
	case record.ReasonWithinFloor, record.ReasonWithinMargin:
		return "within the noise floor"
	case record.ReasonMany:
		return "of so many differences some exclude zero by chance"
	case record.ReasonLateLoad:
		return "the generator's own lag is large beside it"
	}
	return "the noise floor is unknown"
}

// partWords states what a part costs, or what removing it saves.
func partWords(p record.BillPart, removed bool) string {
	cpu := p.Figures[dataplane.BillCPU]
	switch {
	case cpu.Verdict == record.VerdictInvalid:
		return fmt.Sprintf("%s: not measured, too few valid trials.", p.Name)
	case withinZero(cpu):
		return fmt.Sprintf("%s is indistinguishable from zero: %s of CPU.", p.Name, span(cpu))
	case cpu.Verdict != record.VerdictReal:
		return fmt.Sprintf("%s is not significant, %s of CPU: %s.", p.Name, span(cpu), whyNot(cpu))
	}
	share := p.Figures[dataplane.BillShare]
	rest := []string{fmt.Sprintf("%s of what the proxies use", words.Percent(math.Abs(share.Estimate)))}
	for _, name := range []string{dataplane.BillP50, dataplane.BillP99} {
		if l, ok := p.Figures[name]; ok && l.Verdict == record.VerdictReal {
			rest = append(rest, fmt.Sprintf("%s %s", strings.TrimPrefix(name, "latency_"), span(l)))
		}
	}
	if m, ok := p.Figures[dataplane.BillMoney]; ok && m.Verdict == record.VerdictReal {
		rest = append(rest, span(m))
	}
	switch {
	case removed && cpu.Estimate > 0:
		return fmt.Sprintf("Remove %s, save %s of CPU: %s.", p.Name, span(cpu), words.List(rest))
	case removed:
		return fmt.Sprintf("Without %s the proxies use more, not less: %s of CPU is saved.", p.Name, span(cpu))
	case cpu.Estimate < 0:
		return fmt.Sprintf("%s makes the proxies use less: it costs %s of CPU.", p.Name, span(cpu))
	}
	return fmt.Sprintf("%s costs %s of CPU: %s.", p.Name, span(cpu), words.List(rest))
}

// sumWords states whether the parts add up.
func sumWords(s *record.BillSum) string {
	i := s.Interaction
	switch {
	case s.Together.Verdict == record.VerdictInvalid:
		return "The total was not measured: too few valid trials."
	case i.Verdict == record.VerdictInvalid:
		return fmt.Sprintf("Together they cost %s of CPU; not all parts were measured alone.", span(s.Together))
	}
	said := fmt.Sprintf("Together they cost %s of CPU; individually they add up to %s: ", span(s.Together), span(s.Sum))
	switch {
	case withinZero(i):
		return said + fmt.Sprintf("the difference of %s is indistinguishable from zero, so there is no sign of interaction.", span(i))
	case i.Verdict != record.VerdictReal:
		return said + fmt.Sprintf("the difference of %s is not significant: %s.", span(i), whyNot(i))
	case i.Estimate > 0:
		return said + fmt.Sprintf("they interact, and together cost %s more than the sum.", span(i))
	}
	i.Estimate, i.Low, i.High = -i.Estimate, -i.High, -i.Low
	return said + fmt.Sprintf("they interact, and together cost %s less than the sum.", span(i))
}
