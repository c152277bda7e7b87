package reporttest

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/kinds/analyses"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// began is when made-up runs began.
var began = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)

// PlanOf is the plan of a study file.
func PlanOf(t *testing.T, text string, seed uint64) *study.Plan {
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

// MadeUp is a run of a plan whose trials fill makes: nothing of it was measured.
func MadeUp(plan *study.Plan, blocks int, fill func(run *record.Run, trial *record.Trial, r *rand.Rand)) record.Run {
	s := plan.Study
	run := record.Run{StudyYAML: s.Marshal(), Hist: map[string]record.TrialHist{},
		Header: record.Header{Schema: record.Schema, Kind: string(s.Kind), RunID: "20261121-100000-" + s.Name, Study: s.Name, Started: began, Seed: plan.Seed, Lab: "local", Meshtrial: "0.1.0",
			Machine: record.Machine{CPUModel: "Xeon", CPUs: 2, MemoryBytes: 24 << 30, Kernel: "6.8.0", OS: "Debian 13"}}}
	r := rand.New(rand.NewPCG(5, 6))
	for block := range blocks {
		for order, slot := range plan.Block(block) {
			trial := record.Trial{Schema: record.Schema, ID: study.TrialID(block, order), Block: block, Order: order, Cell: plan.Cells[slot.Cell], Repeat: slot.Repeat,
				Started: began, Ended: began.Add(3 * time.Second), Window: record.Window{Start: began, Seconds: 2, Intervals: 8}, Validity: record.Validity{Valid: true}}
			fill(&run, &trial, r)
			run.Trials = append(run.Trials, trial)
		}
	}
	return run
}

// Analysed are the findings of a run.
func Analysed(t *testing.T, run record.Run) record.Findings {
	t.Helper()
	f, err := analyses.All().Analyze(run)
	if err != nil {
		t.Fatal(err)
	}
	return f
}
