package findings

import (
	"math"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/analysis/analysistest"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
	"github.com/meshtrial/meshtrial/study"
)

// A percentile over pairs requires enough pairs to leave one beyond it. The median and the maximum
// accept any number.
func TestReached(t *testing.T) {
	for _, tt := range []struct {
		pairs int
		told  [5]bool // p50, p90, p99, p99.9, max
	}{
		{0, [5]bool{}},
		{1, [5]bool{true, false, false, false, true}},
		{9, [5]bool{true, false, false, false, true}},
		{10, [5]bool{true, true, false, false, true}},
		{99, [5]bool{true, true, false, false, true}},
		{100, [5]bool{true, true, true, false, true}},
		{999, [5]bool{true, true, true, false, true}},
		{1000, [5]bool{true, true, true, true, true}},
	} {
		c := stat.FromSamples(make([]float64, tt.pairs))
		for i, q := range []float64{0.5, 0.9, 0.99, 0.999, 1} {
			if told := !math.IsNaN(reached(c, q)); told != tt.told[i] {
				t.Errorf("%d pairs, %g: told %v", tt.pairs, q, told)
			}
		}
	}
}

// A percentile over pairs states its number of changes if those alone would be too few. Without the
// pairs it has no figure, and says why.
func TestPairsOfFewChanges(t *testing.T) {
	f := analysistest.Analyze(t, kinds, analysistest.SimulateControl(t, analysistest.ControlStudy, 3, analysistest.Tuned)) // 10 changes, 13 proxies
	none, slow := record.Cell{study.FactorVariant: "none"}, record.Cell{study.FactorVariant: "slow"}
	p99 := analysistest.Get(t, f, "convergence_p99", none)
	if !strings.Contains(note.Words(p99.Warnings), "a trial has 130 change-proxy pairs but only 10 changes") {
		t.Errorf("%+v", p99)
	}
	if x := analysistest.Get(t, f, "convergence_p90", none); noteFewChanges.In(x.Warnings) {
		t.Errorf("10 changes reach the 90th percentile: %+v", x)
	}
	for _, x := range f.Findings {
		if x.Name == "convergence_p999" {
			t.Errorf("130 pairs have a p99.9: %+v", x)
		}
	}
	x := analysistest.Get(t, f, "convergence_p999_overhead", slow)
	if x.Verdict != record.VerdictInvalid || x.Reason != record.ReasonTooFew || len(x.Warnings) != 1 || x.Warnings[0].Code != "few_counted" || x.Warnings[0].Args[1] != 1000.0 {
		t.Errorf("%+v", x)
	}
	for _, c := range f.Cells {
		if c.Control.Acknowledged != 390*int64(c.Trials/3) {
			t.Errorf("%s: %d pairs", c.Label, c.Control.Acknowledged)
		}
	}
}

// A search continues if there are too few pairs for its percentile, using the slowest, and states
// the number of changes behind its result.
func TestSearchOfFewPairs(t *testing.T) {
	run, _ := analysistest.Climbed(t, kinds, analysistest.Refined(t, 1, analysistest.Limited(func(int) int { return 29 })), 1)
	x := analysistest.Get(t, analysistest.Analyze(t, kinds, run), "highest_proxies", record.Cell{})
	if x.Low != 28 || !strings.Contains(note.Words(x.Warnings), "at 28 sidecars convergence_p99: a trial has ") {
		t.Errorf("%+v", x)
	}
}
