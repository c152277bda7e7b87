package analysis_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/analysis/analysistest"
	"github.com/meshtrial/meshtrial/internal/note/notetest"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

// TestRefine checks that the first block climbs and bisects, and the next one
// tries the ends.
func TestRefine(t *testing.T) {
	run, tried := analysistest.Climbed(t, kinds, analysistest.Refined(t, 3, analysistest.Limited(func(int) int { return 29 })), 3)
	if got, want := strings.Join(tried, " "), "0:10 0:20 0:40 0:28 0:34 0:31 1:28 1:31 2:28 2:31"; got != want {
		t.Errorf("tried %s, want %s", got, want)
	}
	f := analysistest.Analyze(t, kinds, run)
	x := analysistest.Get(t, f, "highest_proxies", record.Cell{})
	// The convergence jumps a hundredfold, so both ends are one level further
	// out.
	if x.Low != 26 || x.Estimate != 28 || x.High != 34 || x.Blocks != 3 {
		t.Errorf("%+v", x)
	}
	notetest.Args(t, x.Warnings, "beyond_bound", []any{"31 sidecars", "convergence_p99"})
	if !strings.Contains(f.Stop, "all 3 blocks done") {
		t.Error(f.Stop)
	}
	if got := f.Factors[0].Levels; !slices.Equal(got, []string{"10", "20", "28", "31", "34", "40", "80"}) {
		t.Errorf("levels %v", got)
	}
	for _, c := range f.Cells {
		if c.Trials == 0 && c.Cell[controlplane.FactorProxies] != "80" {
			t.Errorf("%s is listed and was not measured", c.Label)
		}
	}
}

// TestRefineNoise checks that if blocks disagree, the interval is at least as
// wide as their distance, and says so.
func TestRefineNoise(t *testing.T) {
	limits := []int{29, 22, 36}
	run, tried := analysistest.Climbed(t, kinds, analysistest.Refined(t, 3, analysistest.Limited(func(block int) int { return limits[block] })), 3)
	x := analysistest.Get(t, analysistest.Analyze(t, kinds, run), "highest_proxies", record.Cell{})
	if x.Low > 22 || x.High < 36 || x.Low < 20 || x.High > 48 {
		t.Errorf("%+v\n%v", x, tried)
	}
	notetest.Args(t, x.Warnings, "blocks_disagree", []any{"26 sidecars", "300 ms", 1, 2}, []any{"28 sidecars", "300 ms", 2, 3}, []any{"34 sidecars", "300 ms", 1, 2})
	// A level without an answer is skipped.
	machine := failing("simulator-lag")
	run, tried = analysistest.Climbed(t, kinds, analysistest.Refined(t, 1, func(t *record.Trial, events []record.Event) {
		if t.Cell[controlplane.FactorProxies] == "20" || t.Cell[controlplane.FactorProxies] == "28" {
			machine(t, events)
			return
		}
		analysistest.Limited(func(int) int { return 29 })(t, events)
	}), 1)
	x = analysistest.Get(t, analysistest.Analyze(t, kinds, run), "highest_proxies", record.Cell{})
	if x.Low > 29 || x.High <= 29 || x.High > 34 {
		t.Errorf("%+v\n%v", x, tried)
	}
	notetest.Args(t, x.Warnings, "no_valid_trial", []any{"20 sidecars", "simulator-lag: it failed"}, []any{"28 sidecars", "simulator-lag: it failed"})
}

// TestRefineAny checks that, wherever the limit is, one block's interval
// includes it, is no wider than the tolerance except for rounding to whole
// numbers, and takes no more trials than the plan says.
func TestRefineAny(t *testing.T) {
	for _, limit := range []int{5, 10, 11, 15, 19, 20, 21, 33, 39, 47, 79, 80} {
		run, tried := analysistest.Climbed(t, kinds, analysistest.Refined(t, 1, analysistest.Limited(func(int) int { return limit })), 1)
		findings, err := kinds.Analyze(run)
		must.OK(t, err)
		x := analysistest.Get(t, findings, "highest_proxies", record.Cell{})
		switch {
		case limit < 10:
			if x.Low != 0 || x.High != 10 || len(tried) != 1 || x.Reason != record.ReasonOneBlock {
				t.Fatalf("%+v %v", x, tried)
			}
		case limit >= 80:
			if x.Low != 80 || x.High != 80 {
				t.Fatalf("%+v %v", x, tried)
			}
		default:
			if float64(limit) < x.Low || float64(limit) >= x.High || x.High > max(x.Low*1.1+1, x.Low+1) {
				t.Fatalf("limit %d: %+v %v", limit, x, tried)
			}
			s, _ := study.Parse(run.StudyYAML, "study.yaml", nil)
			plan, _ := study.NewPlan(s, 3)
			if e := plan.Estimate(); len(tried) > e.Trials {
				t.Fatalf("%d trials, the plan says %d at most: %v", len(tried), e.Trials, tried)
			}
		}
	}
}
