package reporttest

import (
	"math/rand/v2"
	"testing"

	"github.com/meshtrial/meshtrial/analysis/analysistest"
	"github.com/meshtrial/meshtrial/kinds/analyses"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// MadeUp returns a synthetic run of a plan, whose trials fill generates.
func MadeUp(plan *study.Plan, blocks int, fill func(run *record.Run, trial *record.Trial, r *rand.Rand)) record.Run {
	r := rand.New(rand.NewPCG(5, 6))
	run := analysistest.MadeUp(plan, "20261121-100000-"+plan.Study.Name, blocks, func(run *record.Run, trial *record.Trial) { fill(run, trial, r) })
	run.Header.Meshtrial = "0.1.0"
	run.Header.Machine = record.Machine{CPUModel: "Xeon", CPUs: 2, MemoryBytes: 24 << 30, Kernel: "6.8.0", OS: "Debian 13"}
	return run
}

// Analysed returns the findings of a run.
func Analysed(t *testing.T, run record.Run) record.Findings {
	t.Helper()
	return analysistest.Analyze(t, analyses.All(), run)
}
