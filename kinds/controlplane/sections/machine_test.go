package sections

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
	"github.com/meshtrial/meshtrial/testing/reporttest"
)

// Who used the machine stands beside its state, reporttest.Once, and whatever nobody
// counted is a dash.
func TestMachineTable(t *testing.T) {
	f := reporttest.Tuning(t)
	for part := range f.Cells[1].Control.Parts {
		if part == record.PartServerProxy {
			delete(f.Cells[1].Control.Parts, part)
		}
	}
	text := rendered(t, machineTable(f))
	says(t, text, "CPU by component during the windows, mean mCPU", "istiod  simulated sidecars  real sidecars  API server  rest  whole machine  CPUs busy",
		"462", "23%", "–", "Rest: everything these counters miss")
	document := render(t, f, "text", report.Options{Width: 200})
	if n := strings.Count(document, "CPUs busy  "); n != 1 {
		t.Errorf("the machine's state is told %d times:\n%s", n, document)
	}
	for i := range f.Cells {
		f.Cells[i].Control.Parts = nil
	}
	if table := machineTable(f); len(table.Rows) != 0 {
		t.Errorf("%+v", table)
	}
	if document = render(t, f, "text", report.Options{Width: 200}); !strings.Contains(document, "CPUs busy") {
		t.Error("the machine's state is not told")
	}
}

// Idle use is told in thousandths of a core, not as 0 or 1%.
func TestIdleIsToldFinely(t *testing.T) {
	says(t, rendered(t, controlCostTable(reporttest.Tuning(t))), "idle, mCPU", "10.0 (same)")
}

// Single pairs that their own stages miss are told beside the means.
func TestPairsOffNote(t *testing.T) {
	cell := func(label string, pairs, beyond int) record.CellSummary {
		return record.CellSummary{Label: label, Control: &record.ControlSummary{Unexplained: &record.Unexplained{Pairs: pairs, Beyond: beyond}}}
	}
	for want, cells := range map[string][]record.CellSummary{
		"": {{}, {Control: &record.ControlSummary{}}},
		"None of the 1,040 change-proxy pairs differ from the sum of their stages by more than 5% of their time or 2 ms.": {cell("none", 520, 0), cell("slow", 520, 0)},
		"Single change-proxy pairs differ from the sum of their stages by more than 5% of their time or 2 ms: 2 of 520 with none and 20 of 260 with slow.": {
			cell("none", 520, 2), cell("sidecar", 520, 0), cell("slow", 260, 20)},
		"2 of 520 change-proxy pairs differ from the sum of their stages by more than 5% of their time or 2 ms.": {cell("all", 520, 2)},
		"10 of 50 change-proxy pairs differ from the sum of their stages by more than 5% of their time or 2 ms.": {
			cell("a", 10, 2), cell("b", 10, 2), cell("c", 10, 2), cell("d", 10, 2), cell("e", 10, 2)},
	} {
		if got := pairsOffNote(record.Findings{Cells: cells}); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// That istiod's percentile hides something is said only where the interval
// tells it from nothing.
func TestHiddenWords(t *testing.T) {
	for _, tt := range []struct {
		low, estimate, high float64
		want                string
	}{
		{10_000, 14_900, 20_000, ": it hides 14.9 ms"},
		{-40_000, 14_900, 70_000, "; whether it hides anything is inconclusive: the true value is between 40.0 ms below and 70.0 ms above it"},
		{0, 14_900, 30_000, "; whether it hides anything is inconclusive"},
		{-30_000, -14_900, -1000, ", more than the true value: the figure is interpolated across a wide histogram bucket"},
	} {
		if got := hiddenWords(record.Finding{Low: tt.low, Estimate: tt.estimate, High: tt.high, Unit: "us"}); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}

// Ends of an interval that print alike are no interval, however near they are.
func TestNarrowIntervals(t *testing.T) {
	ratio := func(low, high float64) record.Finding {
		return record.Finding{Verdict: record.VerdictReal, Relative: &record.Ratio{Estimate: -0.647711, Low: low, High: high}}
	}
	for want, x := range map[string]record.Finding{
		"-64.77% (to within 0.0003)": ratio(-0.647714, -0.647708),
		"-64.77% (same)":             ratio(-0.647711, -0.647711+1e-15),
		"-64.77% (-64.81 to -64.73)": ratio(-0.6481, -0.6473),
	} {
		if got := report.Relative(x).S; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
