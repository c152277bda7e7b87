package analysis_test

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/analysis/analysistest"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/internal/note/notetest"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/must"
)

// A run with one set of pods that was interrupted within a block continues with
// another set, which serves the rest of that block: the pods of one block can still
// not be distinguished from those of the others, and the findings say so.
func TestPodsOfAResumedRun(t *testing.T) {
	w := analysistest.Quiet()
	w.Deployments = 6
	for name, c := range map[string]struct {
		second func(record.Trial) bool // whether the second set served the trial
		warned string                  // "": each block's pods are known
		args   []any
	}{
		"never interrupted":     {func(record.Trial) bool { return false }, "same_pods", nil},
		"within a block":        {func(trial record.Trial) bool { return trial.Block > 3 || trial.Block == 3 && trial.Order > 1 }, "same_pod_sets", []any{2}},
		"between blocks":        {func(trial record.Trial) bool { return trial.Block > 3 }, "", nil},
		"within the last block": {func(trial record.Trial) bool { return trial.Block == 5 && trial.Order > 1 }, "same_pod_sets", []any{2}},
	} {
		run := analysistest.Simulate(t, analysistest.QuickStudy, 6, 4, w)
		for i := range run.Trials {
			if c.second(run.Trials[i]) {
				run.Trials[i].Deployment = 2
			}
		}
		o, err := kinds.Observe(run)
		must.OK(t, err)
		f := analysistest.Analyze(t, kinds, run)
		same, units, floors := c.warned != "", 2, 2
		if same {
			units, floors = 6, 1
			notetest.Args(t, f.Warnings, c.warned, c.args)
		} else if codes := note.Codes(f.Warnings); strings.Contains(codes, "same_pod") {
			t.Errorf("%s: warnings %s", name, codes)
		}
		if o.SamePods() != same || len(o.Units) != units || f.NoiseFloor[0].Blocks != floors {
			t.Errorf("%s: same pods %v, units %v, a floor of %d", name, o.SamePods(), o.Units, f.NoiseFloor[0].Blocks)
		}
	}
}

// A block that lost all its trials has unknown pods: it is not a second deployment,
// and the others keep their intervals.
func TestPodsOfALostBlock(t *testing.T) {
	w := analysistest.Quiet()
	w.Deployments = 6
	w.Spoil = func(trial *record.Trial) {
		if trial.Block == 2 {
			trial.Deployment, trial.Validity.Valid = 0, false
		}
	}
	run := analysistest.Simulate(t, analysistest.QuickStudy, 6, 4, w)
	f := analysistest.Analyze(t, kinds, run)
	if x := analysistest.Get(t, f, "latency_p50_overhead", bothSidecars); x.Blocks != 5 || x.Verdict == record.VerdictInvalid {
		t.Errorf("%+v", x)
	}
	notetest.Args(t, f.Warnings, "same_pods", nil)
}
