package analysistest

import (
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/analysis/comparison"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// Began is when synthetic runs began.
var Began = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)

// PlanOf returns the plan of a study with this seed.
func PlanOf(t testing.TB, text string, seed uint64) *study.Plan {
	t.Helper()
	s, err := study.Parse([]byte(text), "study.yaml", nil)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := study.NewPlan(s, seed)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// MadeUp returns a synthetic run of a plan, whose trials fill generates. All trials are
// valid and began with the run, unless fill says otherwise.
func MadeUp(plan *study.Plan, id string, blocks int, fill func(run *record.Run, trial *record.Trial)) record.Run {
	s := plan.Study
	run := record.Run{StudyYAML: s.Marshal(), Hist: map[string]record.TrialHist{},
		Header: record.Header{Schema: record.Schema, Kind: string(s.Kind), RunID: id, Study: s.Name, Started: Began, Seed: plan.Seed, Lab: "local"}}
	for block := range blocks {
		for order, slot := range plan.Block(block) {
			trial := record.Trial{Schema: record.Schema, ID: study.TrialID(block, order), Block: block, Order: order, Cell: plan.Cells[slot.Cell], Repeat: slot.Repeat,
				Started: Began, Ended: Began.Add(3 * time.Second), Window: record.Window{Start: Began, Seconds: 2, Intervals: 8},
				Validity: record.Validity{Valid: true}, CPU: map[string]record.CPU{}, Memory: map[string]record.Memory{}}
			fill(&run, &trial)
			run.Trials = append(run.Trials, trial)
		}
	}
	return run
}

// Figures reduces runs to the figures for comparisons.
func Figures(t testing.TB, kinds analysis.Kinds, runs ...record.Run) []*analysis.RunFigures {
	t.Helper()
	var out []*analysis.RunFigures
	for _, run := range runs {
		figures, err := kinds.Figures(run)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, figures)
	}
	return out
}

// Compare compares one run with another, ignoring changes within a margin.
func Compare(t testing.TB, kinds analysis.Kinds, a, b record.Run, margin float64) (comparison.Comparison, error) {
	t.Helper()
	return comparison.Compare(Figures(t, kinds, a), Figures(t, kinds, b), comparison.CompareOptions{MarginRatio: margin})
}
