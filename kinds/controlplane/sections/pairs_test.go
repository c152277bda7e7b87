package sections

import (
	"math"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/record"
)

// What is told over pairs and over changes is told apart, each with how many
// there are.
func TestConvergenceSentences(t *testing.T) {
	k := &record.ControlSummary{Acknowledged: 560, Convergence: record.LatencyAt(0.5, 156_000, 0.99, 233_000), MedianUS: 150_000, LastUS: 155_000,
		Edges: &record.Edges{Changes: 80, Median: record.QuantilesAt(0.5, 150_000), Last: record.QuantilesAt(0.5, 155_000)}}
	got := strings.Join(convergenceSentences("Half", k, "233 ms"), " ")
	if want := "Half of the 560 change-proxy pairs take at most 156 ms from commit to ACK, and 1 in 100 takes more than 233 ms. " +
		"Of those 80 changes, half reach half of their proxies within 150 ms and the last one within 155 ms."; got != want {
		t.Errorf("%s", got)
	}
	if got := strings.Join(convergenceSentences("Half", k, ""), " "); strings.Contains(got, "1 in 100") {
		t.Errorf("without a p99: %s", got)
	}
}

func TestTooFewPairs(t *testing.T) {
	k := &record.ControlSummary{Trials: 2, Acknowledged: 80, Convergence: record.LatencyAt(0.99, 5), ReportedTrials: 2, Edges: &record.Edges{Changes: 40}}
	c := record.CellSummary{Valid: 2, Control: k}
	for name, want := range map[string]bool{"convergence_p99": true, "convergence_p999": true, "convergence_p50": false, "applied_p99": false, "hidden_convergence_p99": true, "pushes": false} {
		if got := tooFewPairs(name, c); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if tooFewPairs("convergence_p99", record.CellSummary{Control: k}) || tooFewPairs("convergence_p99", record.CellSummary{Valid: 1}) {
		t.Error("not valid has too few pairs")
	}
	if !math.IsNaN(pairsReach(0.99)(k)) {
		t.Error("80 pairs have a p99")
	}
	k.Acknowledged = 100
	if pairsReach(0.99)(k) != 5 {
		t.Error("100 pairs have no p99")
	}
	k.Acknowledged = 80
	other := record.CellSummary{Control: &record.ControlSummary{Trials: 1, Acknowledged: 1140, Edges: &record.Edges{Changes: 20}}}
	if got := pairsNote(record.Findings{Cells: []record.CellSummary{c, other, {}}}); !strings.Contains(got, "change-proxy pairs, 40–1,140 from 20 changes per trial: a percentile") {
		t.Error(got)
	}
	if got := pairsNote(record.Findings{}); strings.Contains(got, "per trial:") {
		t.Error(got)
	}
}
