package report

import (
	"math"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
)

// FigureColumns are columns with a finding of each cell, and their priority in narrow tables.
type FigureColumns = []struct {
	Head, Name string
	Keep       int
}

// FigureTable has a row per cell and a column per finding. A cell with too few blocks for
// an interval shows its value alone. Each column has one unit, which its header names: the same
// for all columns of one quantity, so that they can be compared.
// Columns without a figure or the reason why there is none are omitted, as are all rows if
// no column is left. lacks returns the text for a cell without the finding; nil: a dash.
func FigureTable(f record.Findings, title string, columns FigureColumns, lacks func(name string, c record.CellSummary) Text) Table {
	t := Table{Title: title, Columns: FactorColumns(f)}
	plain := OwnValues(f)
	var rows [][]Text
	for _, c := range f.Cells {
		rows = append(rows, FactorTexts(f, c.Cell))
	}
	type kept struct {
		unit           string
		shown, figures bool
	}
	all, largest := make([]kept, len(columns)), map[string]float64{} // by unit
	for i, column := range columns {
		k := &all[i]
		for _, c := range f.Cells {
			x, ok := plain[column.Name+"\x00"+c.Cell.Key()]
			if !ok {
				continue
			}
			k.unit = x.Unit
			v, has := c.Values[column.Name]
			switch {
			case x.Verdict != record.VerdictInvalid:
				v, has = x.Estimate, true
			case x.Reason != "":
				v, has, k.shown = 0, false, true
			}
			largest[k.unit], k.figures = math.Max(largest[k.unit], math.Abs(v)), k.figures || has
		}
	}
	for i, column := range columns {
		k := all[i]
		if !k.shown && !k.figures {
			continue
		}
		s, head := ScaleFor(k.unit, largest[k.unit]), column.Head
		if k.figures {
			head = headOf(head, k.unit, s)
		}
		t.Columns = append(t.Columns, Column{Head: head, Right: true, Keep: column.Keep})
		for i, c := range f.Cells {
			text := Dash
			x, ok := plain[column.Name+"\x00"+c.Cell.Key()]
			switch v, alone := c.Values[column.Name]; {
			case !ok && lacks != nil:
				text = lacks(column.Name, c)
			case !ok:
			case x.Verdict == record.VerdictInconclusive:
				text = Text{S: Figure(x, s).S + " ?", Style: StyleDim}
			case x.Verdict == record.VerdictInvalid && x.Reason == "" && alone:
				text = Text{S: s.Plain(v)}
			default:
				text = Figure(x, s)
			}
			rows[i] = append(rows[i], text)
		}
	}
	if len(t.Columns) > len(FactorColumns(f)) {
		t.Rows = rows
	}
	return t
}

// headOf adds the unit of a column to its head, except units that the head itself names:
// those of counts.
func headOf(head, unit string, s Scale) string {
	named := strings.TrimSuffix(s.Unit, " per change")
	if named == "" || named == unit && !slices.Contains([]string{finding.UnitCores, finding.UnitMilliCPU}, unit) {
		return head
	}
	return head + ", " + named
}
