package sections

import (
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
)

// A percentile has words instead of a figure where there are too few changes for it, and
// others where it lies among changes that never arrived.
func TestEdgesTable(t *testing.T) {
	cell := func(label string, e *record.Edges) record.CellSummary {
		return record.CellSummary{Label: label, Control: &record.ControlSummary{Edges: e}}
	}
	f := record.Findings{Cells: []record.CellSummary{cell("a", &record.Edges{Changes: 60,
		First:  record.QuantilesAt(0.5, 110e3, 0.9, 120e3, 1, 125e3),
		Median: record.QuantilesAt(0.5, 140e3, 0.9, 150e3, 1, 155e3),
		Last:   record.QuantilesAt(0.5, 180e3)}), cell("b", nil)}}
	table := edgesTable(f)
	var rows []string
	for _, row := range table.Rows {
		shown := []string{row[0].S, row[1].S}
		for i, column := range table.Columns {
			if slices.Contains([]string{"p50", "p90", "p99", "max", "changes"}, column.Head) {
				shown = append(shown, row[i].S)
			}
		}
		rows = append(rows, strings.Join(shown, "|"))
	}
	if got, want := strings.Join(rows, "\n"), "all|the first|110|120|too few|125|60\n"+
		"|half|140|150|too few|155|60\n"+
		"|the last|180|not reached|too few|not reached|60"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if !strings.HasSuffix(table.Title, "ms") || len(table.Notes) != 2 || len(table.Columns) != len(table.Rows[0]) {
		t.Errorf("%q, %q, %d columns", table.Title, table.Notes, len(table.Columns))
	}
	if got := edgesTable(record.Findings{Cells: []record.CellSummary{cell("a", nil)}}); len(got.Rows) != 0 {
		t.Errorf("%+v", got)
	}
}

// Where all proxies are real, what is told is when they had changes in force.
func TestAnswersOfEnvoysAlone(t *testing.T) {
	applied := record.LatencyAt(0.5, 130_000, 1, 190_000)
	k := &record.ControlSummary{Pairs: 20, Applied: &applied}
	got := cellAnswers(record.Findings{Cells: make([]record.CellSummary, 1)}, record.CellSummary{Control: k})
	if want := "Half of the changes are active in an Envoy 130 ms after commit, and all that arrived within 190 ms."; len(got) != 1 || got[0] != want {
		t.Errorf("%q", got)
	}
	if got := cellAnswers(record.Findings{}, record.CellSummary{Control: &record.ControlSummary{}}); got != nil {
		t.Errorf("of nothing: %q", got)
	}
}

// Where not every change shows in a proxy's configuration the table says of
// how many it is.
func TestFollowedNote(t *testing.T) {
	cell := func(changes, committed int) record.CellSummary {
		return record.CellSummary{Label: "none", Control: &record.ControlSummary{Committed: committed, Edges: &record.Edges{Changes: changes}}}
	}
	if got := followedNote(record.Findings{Cells: []record.CellSummary{{}, cell(30, 30), cell(20, 30)}}); !strings.Contains(got, "here 20 of 30 with none.") {
		t.Error(got)
	}
	if got := followedNote(record.Findings{Cells: []record.CellSummary{{}, cell(30, 30)}}); got != "" {
		t.Error(got)
	}
}

// What all blocks gave alike has no interval.
func TestSameInAllBlocks(t *testing.T) {
	s := report.Scale{Div: 1, Unit: "pushes"}
	x := record.Finding{Verdict: record.VerdictMeasured, Estimate: 540, Low: 540, High: 540, Blocks: 2}
	if got := report.WithInterval(s, x); got != "540 pushes (same in both blocks)" {
		t.Error(got)
	}
	if got := report.Figure(x, s).S; got != "540 (same)" {
		t.Error(got)
	}
	x.Probe = "search"
	if got := report.WithInterval(s, x); got != "540 pushes (540–540)" {
		t.Error(got)
	}
	x.High, x.Low, x.Blocks = 541, 539, 3
	if got := report.WithInterval(s, x); got != "540.0 pushes (539.0–541.0)" {
		t.Error(got)
	}
	x.Relative = &record.Ratio{Estimate: -0.815, Low: -0.815, High: -0.815}
	if got := report.Relative(x).S; got != "-81.5% (same)" {
		t.Error(got)
	}
}
