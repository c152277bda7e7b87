package report

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/record"
)

func TestConditions(t *testing.T) {
	cells := []record.CellSummary{
		{Cell: record.Cell{"sidecars": "none"}, Pressure: &record.Pressure{BusyRatio: 0.312, CPUSomeRatio: 0.05, StealRatio: 0.001},
			Connections: map[string]record.Connections{record.PartGenerator: {Established: 17, Retransmitted: 1}, record.PartWorker: {Established: 1016, Retransmitted: 2}}},
		{Cell: record.Cell{"sidecars": "both"}},
	}
	f := record.Findings{Factors: []record.FactorLevels{{Factor: "sidecars", Levels: []string{"none", "both"}}}, Cells: cells}
	texts := func(row []Text) string {
		var out []string
		for _, cell := range row {
			out = append(out, cell.S)
		}
		return strings.Join(out, " | ")
	}
	got := conditionsTable(f)
	want := []string{"none | 17 | 1,016 | 3 | 31% | 5% | 0%", "both | – | – | – | – | – | –"}
	if len(got.Rows) != len(want) || len(got.Columns) != 7 {
		t.Fatalf("%d rows, %d columns", len(got.Rows), len(got.Columns))
	}
	for i, row := range got.Rows {
		if texts(row) != want[i] {
			t.Errorf("row %d: %s, want %s", i, texts(row), want[i])
		}
	}
	for len(f.Cells) <= maxConditionRows {
		f.Cells = append(f.Cells, cells...)
	}
	if got := conditionsTable(f); len(got.Rows) != 0 {
		t.Errorf("%d rows of a large study", len(got.Rows))
	}
	f.Cells = cells[1:]
	if got := conditionsTable(f); len(got.Rows) != 0 {
		t.Errorf("%d rows of a study that recorded nothing", len(got.Rows))
	}
}
