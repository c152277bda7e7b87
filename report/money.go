package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/record"
)

// MoneyTable shows what the proxies of a described mesh would cost, one row per
// cell.
func MoneyTable(f record.Findings) Table {
	names := []string{"money_cores", "money_cpu", "money_memory", "money_month", "money_month_overhead", "money_cpu_fit"}
	heads := []string{"cores", "CPU", "memory", "in all", "against baseline", "CPU, from idle cost and slope"}
	t := Table{Title: "Monthly cost of the proxies in the stated mesh", Columns: FactorColumns(f)}
	if len(f.Sizings) > 0 {
		t.Title = "Monthly cost of the proxies in the mesh of section money" // sizing describes another mesh
	}
	var found []map[string]record.Finding
	for i, name := range names {
		by := Named(f, name)
		maps.DeleteFunc(by, func(_ string, x record.Finding) bool { return x.Verdict == record.VerdictInvalid })
		any := false
		for _, x := range by {
			any = any || x.Estimate != 0
		}
		if !any {
			continue
		}
		found = append(found, by)
		head := heads[i]
		for _, finding := range by {
			if finding.Unit != "cores" {
				head += ", " + finding.Unit
			}
			break
		}
		t.Columns = append(t.Columns, Column{Head: head, Right: true, Keep: 9 - i})
	}
	if len(found) == 0 {
		return Table{}
	}
	for _, c := range f.Cells {
		row, any := FactorTexts(f, c.Cell), false
		for _, by := range found {
			finding, ok := by[c.Cell.Key()]
			if !ok {
				finding, ok = by[WithoutRate(c.Cell).Key()] // a fit over rates
			}
			if !ok {
				row = append(row, Dash)
				continue
			}
			any = any || finding.Estimate != 0
			row = append(row, Text{S: WholeInterval(finding)})
		}
		if any {
			t.Rows = append(t.Rows, row)
		}
	}
	if f.Money != "" {
		t.Notes = append(t.Notes, "For a mesh with "+f.Money+". Proxies only: other costs, such as kernel interrupts and the control plane, come on top.")
	}
	return t
}

// Named returns the findings of a name by cell, compared or not.
func Named(f record.Findings, name string) map[string]record.Finding {
	out := map[string]record.Finding{}
	for _, finding := range f.Findings {
		if finding.Name == name {
			out[finding.Cell.Key()] = finding
		}
	}
	return out
}

func WithoutRate(cell record.Cell) record.Cell {
	out := cell.With(nil)
	delete(out, "rate")
	return out
}

// monthWords formats a unit of money for a sentence: "USD per month".
func monthWords(unit string) string {
	currency, per := SplitUnit(unit)
	return currency + " per " + per
}

// WholeInterval formats money and cores, whose fractions do not matter.
func WholeInterval(x record.Finding) string {
	if math.Abs(x.Estimate) < 100 {
		return Scale{Div: 1}.Interval(x.Estimate, x.Low, x.High)
	}
	dash := "–"
	if x.Low < 0 {
		dash = " to "
	}
	return fmt.Sprintf("%s (%s%s%s)", rounded(x.Estimate, x), rounded(x.Low, x), dash, rounded(x.High, x))
}

// rounded formats v with the precision of three figures in the largest value of
// x.
func rounded(v float64, x record.Finding) string {
	unit := math.Pow10(max(0, Magnitude(math.Max(math.Abs(x.Low), math.Abs(x.High)))-2))
	return Fixed(math.Round(v/unit)*unit, 0)
}

// toldCosts is the maximum number of cells whose costs the answers list; with
// more, they give only the most expensive one.
const toldCosts = 3

// MoneyAnswers says what a few cells cost, or the most expensive of many, and
// the largest saving of a cell over its baseline.
func MoneyAnswers(f record.Findings) []string {
	var out []string
	var costs []record.Finding
	saves := record.Finding{}
	for _, x := range f.Findings {
		switch {
		case x.Verdict == record.VerdictInvalid:
		case x.Name == "money_month" && x.Estimate > 0:
			costs = append(costs, x)
		case x.Name == "money_month_overhead" && x.Verdict == record.VerdictReal && x.Estimate < saves.Estimate:
			saves = x
		}
	}
	label := func(cell record.Cell) string {
		i := slices.IndexFunc(f.Cells, func(c record.CellSummary) bool { return c.Cell.Key() == cell.Key() })
		if i < 0 || f.Cells[i].Label == "" || len(f.Cells) == 1 {
			return ""
		}
		return " (" + f.Cells[i].Label + ")"
	}
	slices.SortStableFunc(costs, func(a, b record.Finding) int { return cmp.Compare(b.Estimate, a.Estimate) })
	if len(costs) > toldCosts {
		costs = costs[:1]
	}
	var each []string
	for _, x := range costs {
		each = append(each, fmt.Sprintf("%s %s%s", WholeInterval(x), monthWords(x.Unit), label(x.Cell)))
	}
	if len(each) > 0 {
		out = append(out, fmt.Sprintf("The proxies of a mesh with %s would cost %s.", f.Money, words.List(each)))
	}
	if saves.Estimate < 0 {
		saved := saves
		saved.Estimate, saved.Low, saved.High = -saves.Estimate, -saves.High, -saves.Low
		out = append(out, fmt.Sprintf("The cheapest%s saves %s %s of that.", label(saves.Cell), WholeInterval(saved), monthWords(saves.Unit)))
	}
	return out
}
