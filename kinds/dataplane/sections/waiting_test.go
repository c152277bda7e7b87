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
	want := "Of the mean overhead of 1.20 ms, 0.400 ms (33%) is waiting for a CPU, idle or busy, and 0.800 ms is the rest."
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

// What the wait grows by with the rate is contention: an amount, none that
// matters, or inconclusive.
func TestContention(t *testing.T) {
	for _, c := range []struct {
		name            string
		low, high, half float64
		busy            float64
		want            string
	}{
		{"grows", 300, 500, 10, 0.1, "The difference, 0.200 ms (0.186 ms to 0.214 ms), is contention"},
		{"stays", 300, 305, 10, 0.1, "contention adds no more than 0.0191 ms"},
		{"falls", 500, 300, 10, 0.1, "waiting for a CPU falls from 0.500 ms to 0.300 ms of the overhead: idle CPUs take longer to wake up the more they rest. Whether contention adds to the wait at the higher rate is unknown."},
		{"wide", 300, 500, 300, 0.1, "contention adds between 0 ms and 0.624 ms, inconclusive"},
		{"busy from the first", 300, 500, 10, 0.6, "is unknown, since the CPUs were not idle"},
	} {
		f := record.Findings{Factors: []record.FactorLevels{{Factor: "sidecars", Levels: []string{"none", "both"}}, {Factor: "rate", Levels: []string{"200", "2000"}}}}
		for rate, estimate := range map[string]float64{"200": c.low, "2000": c.high} {
			cell := record.Cell{"sidecars": "both", "rate": rate}
			f.Cells = append(f.Cells, record.CellSummary{Cell: cell, Pressure: &record.Pressure{BusyRatio: c.busy}})
			for name, v := range map[string]float64{"latency_waiting_overhead": estimate, "latency_mean_overhead": 1000} {
				f.Findings = append(f.Findings, record.Finding{Name: name, Unit: "us", Cell: cell, Against: record.Cell{"sidecars": "none", "rate": rate},
					Verdict: record.VerdictReal, Estimate: v, Low: v - c.half, High: v + c.half, Blocks: 6})
			}
		}
		got := contentionAnswers(f, record.Cell{"sidecars": "both"})
		if len(got) != 1 || !strings.Contains(got[0], c.want) || !strings.HasPrefix(got[0], "From 200 to 2,000 requests per second") {
			t.Errorf("%s: %q", c.name, got)
		}
		f.Factors = f.Factors[:1]
		if got := contentionAnswers(f, record.Cell{"sidecars": "both"}); len(got) > 0 {
			t.Errorf("%s, without a rate that varies: %q", c.name, got)
		}
	}
}
