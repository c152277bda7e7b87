package report

import (
	"strings"
	"testing"

	"github.com/meshmark/meshmark/record"
)

// A percentile that the changes do not reach is told to be so, and no figure.
func TestEdgesTable(t *testing.T) {
	ms := func(v float64) *float64 { v *= 1000; return &v }
	cell := func(label string, e *record.Edges) record.CellSummary {
		return record.CellSummary{Label: label, Control: &record.ControlSummary{Edges: e}}
	}
	f := record.Findings{Cells: []record.CellSummary{cell("a", &record.Edges{Changes: 60,
		First:  record.ChangeQuantiles{P50: ms(110), P90: ms(120), Max: ms(125)},
		Median: record.ChangeQuantiles{P50: ms(140), P90: ms(150), Max: ms(155)},
		Last:   record.ChangeQuantiles{P50: ms(180), P90: ms(190)}}), cell("b", nil)}}
	table := edgesTable(f)
	var rows []string
	for _, row := range table.Rows {
		var cells []string
		for _, c := range row {
			cells = append(cells, c.S)
		}
		rows = append(rows, strings.Join(cells, "|"))
	}
	if got, want := strings.Join(rows, "\n"), "all|the first|110|120|not reached|not reached|125|60\n"+
		"|half|140|150|not reached|not reached|155|60\n"+
		"|the last|180|190|not reached|not reached|not reached|60"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if !strings.HasSuffix(table.Title, "ms") || len(table.Notes) != 1 || len(table.Columns) != len(table.Rows[0]) {
		t.Errorf("%q, %q, %d columns", table.Title, table.Notes, len(table.Columns))
	}
	if got := edgesTable(record.Findings{Cells: []record.CellSummary{cell("a", nil)}}); len(got.Rows) != 0 {
		t.Errorf("%+v", got)
	}
}

// Where all proxies are real, what is told is when they had changes in force.
func TestAnswersOfEnvoysAlone(t *testing.T) {
	k := &record.ControlSummary{Pairs: 20, Applied: &record.Latency{P50: 130_000, Max: 190_000}}
	got := cellAnswers(record.Findings{Cells: make([]record.CellSummary, 1)}, record.CellSummary{Control: k})
	if want := "Half of the changes are in force in an Envoy 130 ms after their commit, all that came within 190 ms."; len(got) != 1 || got[0] != want {
		t.Errorf("%q", got)
	}
	if got := cellAnswers(record.Findings{}, record.CellSummary{Control: &record.ControlSummary{}}); got != nil {
		t.Errorf("of nothing: %q", got)
	}
}
