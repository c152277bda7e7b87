package analysis_test

import (
	"math"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/meshtrial/meshtrial/analysis/analysistest"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

// A block in which one of two cells has no valid trial is excluded from their
// comparison on both sides, for percentiles over pooled requests as for everything
// else, even if its unit has other blocks with both. Here everything is three
// times as slow in every second block, and the cell has no valid trial there: the
// rest of both differ by 400 us.
func TestHalfABlockLeavesPooledPercentiles(t *testing.T) {
	w := analysistest.Quiet()
	w.Deployments = 2
	run := analysistest.Simulate(t, analysistest.QuickStudy, 8, 5, w)
	for i := range run.Trials {
		trial := &run.Trials[i]
		if trial.Block%2 == 0 {
			continue
		}
		slow := hdrhistogram.New(1, 60_000_000_000, 3)
		for _, bar := range run.Hist[trial.ID].Intended.Distribution() {
			if bar.Count > 0 {
				must.OK(t, slow.RecordValues(3*bar.To, bar.Count))
			}
		}
		run.Hist[trial.ID] = record.TrialHist{Intended: slow, Send: slow}
		trial.Validity.Valid = trial.Cell[study.FactorSidecars] != study.SidecarsBoth
	}
	f := analysistest.Analyze(t, kinds, run)
	for name, want := range map[string]float64{"latency_p50_overhead": 400, "latency_p90_overhead": 400 * math.Exp(0.3*1.2816)} {
		if x := analysistest.Get(t, f, name, bothSidecars); math.Abs(x.Estimate/want-1) > 0.08 || x.Blocks != 4 {
			t.Errorf("%s is %.0f us in %d units, want %.0f in 4", name, x.Estimate, x.Blocks, want)
		}
	}
	c, err := analysistest.Compare(t, kinds, run, run, 0.05)
	must.OK(t, err)
	for _, change := range c.Changes {
		if change.Name == "latency_p50_overhead" && change.Cell["sidecars"] == "both" && math.Abs(change.A.Estimate/400-1) > 0.08 {
			t.Errorf("compared as %+v", change.A)
		}
	}
}
