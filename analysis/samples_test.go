package analysis_test

import (
	"math"
	"slices"
	"testing"

	"github.com/meshtrial/meshtrial/analysis/analysistest"
	"github.com/meshtrial/meshtrial/record"
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
		i := slices.IndexFunc(s.Values, func(v record.SampleValue) bool { return v.Name == name })
		if i < 0 {
			return math.NaN()
		}
		return s.Values[i].Value
	}
	both := byCell["both"]
	if len(f.LeftOut) != 1 || f.LeftOut[0].Trial == "" || f.LeftOut[0].Cell["sidecars"] != "both" || !slices.Equal(f.LeftOut[0].Checks, []string{"spoilt"}) {
		t.Errorf("left out: %+v", f.LeftOut)
	}
	if 3*both[0].Requests > 2*both[1].Requests+both[1].Requests/10 {
		t.Errorf("%d requests of two trials, %d of three", both[0].Requests, both[1].Requests)
	}
	// The run's own estimates derive from them.
	x := analysistest.Get(t, f, "latency_p50", record.Cell{"sidecars": "both"})
	if a, b := value(both[0], "latency_p50"), value(both[1], "latency_p50"); !(min(a, b) <= x.Estimate && x.Estimate <= max(a, b)) {
		t.Errorf("medians of %v and %v, and %v of all", a, b, x.Estimate)
	}
	cpu := analysistest.Get(t, f, "cpu_worker_per_request", record.Cell{"sidecars": "both"})
	if a, b := value(both[0], "cpu_worker_per_request"), value(both[1], "cpu_worker_per_request"); !(min(a, b) <= cpu.Estimate && cpu.Estimate <= max(a, b)) {
		t.Errorf("CPU of %v and %v, and %v of all", a, b, cpu.Estimate)
	}
}

// A percentile beyond which no request lies is not a value of a sample.
func TestSamplesOfFewRequests(t *testing.T) {
	w := analysistest.Quiet()
	run := analysistest.Simulate(t, analysistest.QuickStudy, 2, 4, w)
	f := analysistest.Analyze(t, kinds, run)
	for _, s := range f.Samples {
		for _, q := range record.Percentiles() {
			has := slices.ContainsFunc(s.Values, func(v record.SampleValue) bool { return v.Name == "latency_"+q.Name() })
			if want := s.Requests >= int64(q.Needs()); has != want {
				t.Errorf("%s of %d requests: %v", q.Name(), s.Requests, has)
			}
		}
	}
	if len(f.Samples) == 0 {
		t.Error("no samples")
	}
}
