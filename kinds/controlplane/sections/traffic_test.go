package sections

import (
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
	"github.com/meshtrial/meshtrial/testing/reporttest"
)

// A report tells what the study measures, and nothing of what it does not.
func TestOnlyWhatIsMeasuredIsTold(t *testing.T) {
	f := reporttest.Phantom(t)
	answers := answersOf(f)
	said := strings.Join(answers, "\n")
	for _, want := range []string{"With debounce 100ms, 24 of 28,000 requests", "went to a stale endpoint", "failed for the caller", "costs istiod"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not among the answers: %q", want, answers)
		}
	}
	s := render(t, f, "text", report.Options{Width: 200})
	for _, want := range []string{"Requests to stale endpoints", "requests to stale endpoints", "Cost of the control plane"} {
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
	if s := render(t, reporttest.Tuning(t), "text", report.Options{Width: 200}); strings.Contains(s, "gone endpoints") || strings.Contains(s, "Requests at endpoints") {
		t.Errorf("requests that nobody sent:\n%s", s)
	}
	if i := slices.IndexFunc(reporttest.Tuning(t).Findings, func(x record.Finding) bool {
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
