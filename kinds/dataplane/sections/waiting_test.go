package sections

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/record"
)

func TestWaiting(t *testing.T) {
	both := record.Cell{"sidecars": "both"}
	f := record.Findings{Factors: []record.FactorLevels{{Factor: "sidecars", Levels: []string{"none", "both"}}},
		Cells: []record.CellSummary{{Cell: record.Cell{"sidecars": "none"}, Baseline: true}, {Cell: both}}}
	add := func(name string, estimate float64) {
		f.Findings = append(f.Findings, record.Finding{Name: name, Unit: "us", Cell: both, Against: record.Cell{"sidecars": "none"}, Verdict: record.VerdictReal,
			Estimate: estimate, Low: estimate - 10, High: estimate + 10, Blocks: 6})
	}
	if table := waitingTable(f); len(table.Rows) > 0 || len(waitingAnswers(f, both)) > 0 {
		t.Error("nobody read what threads waited, and it is told")
	}
	add("latency_mean_overhead", 1200)
	add("latency_waiting_overhead", 400)
	add("latency_service_overhead", 800)
	if table := waitingTable(f); len(table.Rows) != 1 || len(table.Rows[0]) != 4 || !strings.Contains(table.Rows[0][2].S, "0.40") {
		t.Errorf("%+v", table)
	}
	want := "Of the mean overhead of 1.20 ms, 0.400 ms (33%) is waiting for a CPU of this machine; 0.800 ms is left where CPUs are plenty."
	if got := waitingAnswers(f, both); len(got) != 1 || got[0] != want {
		t.Errorf("%q", got)
	}
	f.Findings[1].Estimate = 50
	if got := waitingAnswers(f, both); len(got) > 0 {
		t.Errorf("hardly any waiting: %q", got)
	}
	f.Findings[1].Estimate, f.Findings[1].Verdict = 400, record.VerdictInconclusive
	if got := waitingAnswers(f, both); len(got) > 0 {
		t.Errorf("inconclusive: %q", got)
	}
}
