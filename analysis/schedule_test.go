package analysis_test

import (
	"slices"
	"testing"

	"github.com/meshtrial/meshtrial/analysis/analysistest"
	"github.com/meshtrial/meshtrial/record"
)

// A cell's summary has the medians of its trials' schedule records, and nothing
// if there are none.
func TestScheduleOfCells(t *testing.T) {
	w := analysistest.Quiet()
	w.Spoil = func(trial *record.Trial) {
		if trial.Cell["sidecars"] != "both" {
			return
		}
		b := float64(trial.Block)
		rho := 0.1 * b
		trial.Load.Schedule = &record.Schedule{Process: "poisson", Gaps: 2000, Distance: 0.01 * b, AchievedRatio: 1 + 0.01*b}
		trial.Load.Autocorrelation, trial.Load.EffectiveRequests = &rho, 100*b
	}
	f := analysistest.Analyze(t, kinds, analysistest.Simulate(t, analysistest.QuickStudy, 5, 1, w))
	both := slices.IndexFunc(f.Cells, func(c record.CellSummary) bool { return c.Cell["sidecars"] == "both" })
	for i, c := range f.Cells {
		if (c.Schedule != nil) != (i == both) {
			t.Errorf("%s: %+v", c.Label, c.Schedule)
		}
	}
	if want := (record.ScheduleSummary{Distance: 0.02, AchievedRatio: 1.02, Autocorrelation: 0.2, EffectiveRequests: 200}); f.Cells[both].Schedule == nil || *f.Cells[both].Schedule != want {
		t.Errorf("%+v, want %+v", f.Cells[both].Schedule, want)
	}
}
