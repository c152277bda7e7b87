package report

import (
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// phantom is a made-up run of studies/phantom, which measures what real
// requests met and what the control plane cost, and nothing else.
func phantom(t *testing.T) record.Findings {
	return controlFindings(t, "phantom", 4, func(trial *record.Trial, _ []record.Event) {
		gone := int64(3)
		if trial.Cell[study.FactorDebounceAfter] != "100ms" {
			gone = 120 + int64(trial.Order)
		}
		trial.Control.Traffic = &record.Traffic{RateRPS: 100, Connections: 1000, Requests: 3500, Completed: 3500 - gone/3, Failed: map[string]int64{"status-503": gone / 3},
			Latency: record.Latency{P50: 1200, P99: 9000}, Gone: 2, Attempts: 3500 + gone, PhantomAttempts: gone, PhantomEnded: gone, PhantomFailed: gone,
			PhantomRequests: gone, PhantomFailures: gone / 3, PhantomHidden: gone - gone/3, LastPhantomUS: float64(gone) * 20_000}
	})
}

// A report tells what the study measures, and nothing of what it does not.
func TestOnlyWhatIsMeasuredIsTold(t *testing.T) {
	f := phantom(t)
	answers := answersOf(f)
	said := strings.Join(answers, "\n")
	for _, want := range []string{"With debounce 100ms, 24 of 28,000 requests", "went to an endpoint already gone", "failed for the caller", "costs istiod"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not among the answers: %q", want, answers)
		}
	}
	s := render(t, f, "text", Options{Width: 200})
	for _, want := range []string{"Requests at endpoints already gone", "requests at gone endpoints", "Cost of the control plane"} {
		if !strings.Contains(s, want) {
			t.Errorf("no table %q:\n%s", want, s)
		}
	}
	for _, no := range []string{"half of the changes", "Half of the changes", "the last proxy", "Convergence by cell", "First, median and last", "Where the time goes", "second source", "by type", "Push amplification", "hides"} {
		if strings.Contains(s, no) {
			t.Errorf("%q is told, and was not to be measured:\n%s", no, s)
		}
	}
	// Where all is measured but no requests ran, none are told of.
	if s := render(t, tuning(t), "text", Options{Width: 200}); strings.Contains(s, "gone endpoints") || strings.Contains(s, "Requests at endpoints") {
		t.Errorf("requests that nobody sent:\n%s", s)
	}
	if i := slices.IndexFunc(tuning(t).Findings, func(x record.Finding) bool {
		return strings.HasPrefix(x.Name, "phantom_") || strings.HasPrefix(x.Name, "traffic_")
	}); i >= 0 {
		t.Error("findings about requests that nobody sent")
	}
	if i := slices.IndexFunc(f.Cells, func(c record.CellSummary) bool {
		return len(c.BlockP50US) > 0 || len(c.Control.Stages) > 0 || len(c.Control.Percentiles) > 0 || c.Control.Pairs == 0
	}); i >= 0 {
		t.Errorf("%+v", f.Cells[i])
	}
}
