package report

import (
	"testing"

	"github.com/meshtrial/meshtrial/record"
)

// Columns of one quantity have the unit of the largest of them; others have their own.
func TestFigureTableUnits(t *testing.T) {
	f := record.Findings{Cells: []record.CellSummary{{Cell: record.Cell{}}}}
	for name, x := range map[string]record.Finding{
		"low": {Unit: "us", Estimate: 20e3}, "high": {Unit: "us", Estimate: 20e6}, "size": {Unit: "bytes", Estimate: 3e3},
	} {
		x.Name, x.Cell, x.Low, x.High, x.Verdict = name, record.Cell{}, x.Estimate, x.Estimate, record.VerdictMeasured
		f.Findings = append(f.Findings, x)
	}
	table := FigureTable(f, "", FigureColumns{{Head: "p50", Name: "low"}, {Head: "p99", Name: "high"}, {Head: "size", Name: "size"}}, nil)
	for i, want := range []string{"p50, s", "p99, s", "size, kB"} {
		if len(table.Columns) != 4 || table.Columns[i+1].Head != want { // the first names the cell
			t.Fatalf("columns %+v, want %s", table.Columns, want)
		}
	}
}
