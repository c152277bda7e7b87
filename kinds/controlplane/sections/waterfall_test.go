package sections

import (
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/record"
)

// The stages shown add up in a terminal's width too: with many factors a row
// becomes a paragraph.
func TestWaterfallLeavesOutNoStage(t *testing.T) {
	k := &record.ControlSummary{MeanUS: 5_455_500, ResidualUS: -1200}
	for i, name := range record.Stages() {
		k.Stages = append(k.Stages, record.Stage{Name: name, MeanUS: float64(i)*1e6 - 4100})
	}
	cell := record.Cell{"variant": "discovery-selectors"}
	factors := []record.FactorLevels{{Factor: "variant", Levels: []string{"none", "discovery-selectors"}}}
	for _, more := range []string{"", "services", "virtual_services", "destination_rules"} {
		if more != "" {
			cell[more] = "10000"
			factors = append(factors, record.FactorLevels{Factor: more, Levels: []string{"100", "10000"}})
		}
		table := waterfallTable(record.Findings{Factors: factors, Cells: []record.CellSummary{{Cell: cell, Label: "discovery-selectors", Control: k}}})
		out := renderedIn(t, 100, table)
		for _, s := range []string{"watch", "debounce", "context", "queue", "generate", "wire", "ack", "unexplained", "-4.1", "5995.9", "-1.2"} {
			if !strings.Contains(strings.ReplaceAll(out, ",", ""), s) {
				t.Errorf("with %d factors %q is not there:\n%s", len(factors), s, out)
			}
		}
		if strings.Contains(out, "variant: ") != (more != "") {
			t.Errorf("with %d factors:\n%s", len(factors), out)
		}
		if !slices.ContainsFunc(table.Notes, func(n string) bool { return strings.HasPrefix(n, "Negative watch") }) {
			t.Errorf("nothing is said of a negative watch: %q", table.Notes)
		}
	}
}

// Istiod's own figure is a line through a first bucket in some trials or all,
// and is not called so of others.
func TestFirstBucketWords(t *testing.T) {
	cell := func(label string, first, all int) record.CellSummary {
		return record.CellSummary{Label: label, Control: &record.ControlSummary{ReportedFirstTrials: first, ReportedTrials: all}}
	}
	for _, tt := range []struct {
		cells       []record.CellSummary
		words, note string
	}{
		{[]record.CellSummary{cell("none", 0, 4)}, "", ""},
		{[]record.CellSummary{{Label: "none", Control: &record.ControlSummary{}}, {}}, "", ""},
		{[]record.CellSummary{cell("none", 4, 4), cell("sidecar", 2, 2)}, ", which only says that it falls into the first histogram bucket",
			"In all 6 trials istiod's figure falls into the first histogram bucket: it is interpolated between 0 and 100 ms"},
		{[]record.CellSummary{cell("none", 2, 4), cell("sidecar", 2, 2)}, " on average, though in 2 of 4 trials it falls into the first histogram bucket",
			"In 4 of 6 trials (not in 2 of 4 with none) istiod's figure falls into the first histogram bucket and is"},
		{slices.Repeat([]record.CellSummary{cell("none", 2, 4)}, 5), " on average, though in 2 of 4 trials it falls into the first histogram bucket",
			"In 10 of 20 trials istiod's figure falls"},
	} {
		if got := firstBucketWords(tt.cells[0].Control); got != tt.words {
			t.Errorf("%q, want %q", got, tt.words)
		}
		if got := firstBucketNote(record.Findings{Cells: tt.cells}); !strings.HasPrefix(got, tt.note) || (got == "") != (tt.note == "") {
			t.Errorf("%q, want %q", got, tt.note)
		}
	}
}
