package analysis_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/meshtrial/meshtrial/analysis/analysistest"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/internal/note/notetest"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

// A cell has a sample for each deployment, a baseline two; invalid trials are in none.
func TestSamples(t *testing.T) {
	w := analysistest.Quiet()
	w.Deployments = 3
	w.Spoil = func(trial *record.Trial) {
		if trial.Block == 1 && trial.Cell["sidecars"] == "both" {
			trial.Validity = record.Validity{Checks: []record.Check{{Name: "fine", OK: true}, {Name: "spoilt"}}}
		}
	}
	run := analysistest.Simulate(t, analysistest.QuickStudy, 6, 4, w)
	f := analysistest.Analyze(t, kinds, run)
	byCell := map[string][]record.Sample{}
	for _, s := range f.Samples {
		byCell[s.Cell["sidecars"]] = append(byCell[s.Cell["sidecars"]], s)
	}
	for _, c := range f.Cells {
		want := 2
		if c.Baseline {
			want = 4
		}
		samples := byCell[c.Cell["sidecars"]]
		if len(samples) != want {
			t.Errorf("%v: %d samples, want %d", c.Cell, len(samples), want)
		}
		requests := int64(0)
		for _, s := range samples {
			requests += s.Requests
		}
		if requests != c.Requests+c.Failed+c.Unfinished {
			t.Errorf("%v: %d requests in samples, %d in all", c.Cell, requests, c.Requests)
		}
	}
	value := func(s record.Sample, name string) float64 {
		return s.Values[slices.IndexFunc(s.Values, func(v record.SampleValue) bool { return v.Name == name })].Value
	}
	both := byCell["both"]
	if len(f.LeftOut) != 1 || f.LeftOut[0].Trial == "" || f.LeftOut[0].Cell["sidecars"] != "both" || !slices.Equal(f.LeftOut[0].Checks, []string{"spoilt"}) {
		t.Errorf("left out: %+v", f.LeftOut)
	}
	if 3*both[0].Requests > 2*both[1].Requests+both[1].Requests/10 {
		t.Errorf("%d requests of two trials, %d of three", both[0].Requests, both[1].Requests)
	}
	// The run's own estimates derive from them.
	for _, name := range []string{"latency_p50", "cpu_worker_per_request"} {
		x := analysistest.Get(t, f, name, bothSidecars)
		if a, b := value(both[0], name), value(both[1], name); !(min(a, b) <= x.Estimate && x.Estimate <= max(a, b)) {
			t.Errorf("%s: %v and %v, and %v of all", name, a, b, x.Estimate)
		}
	}
	// A percentile beyond which no request lies is not a value of a sample.
	for _, s := range f.Samples {
		for _, q := range record.Percentiles() {
			has := slices.ContainsFunc(s.Values, func(v record.SampleValue) bool { return v.Name == "latency_"+q.Name() })
			if want := s.Requests >= int64(q.Needs()); has != want {
				t.Errorf("%s of %d requests: %v", q.Name(), s.Requests, has)
			}
		}
	}
}

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
