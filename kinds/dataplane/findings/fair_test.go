package findings

import (
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/analysis/analysistest"
	"github.com/meshtrial/meshtrial/internal/note"
	judged "github.com/meshtrial/meshtrial/kinds/dataplane/verdict"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/verdict"
	"github.com/meshtrial/meshtrial/stat"
	"github.com/meshtrial/meshtrial/study"
)

// disturbed returns a run in which neighbours hit a third of the trials of any cell: they make the
// generator late, and every request slower by twice as much. Without them requests take 300 us at
// the median, and 600 us more with both sidecars.
func disturbed(t *testing.T, seed uint64) record.Run {
	w := analysistest.Quiet()
	w.Latency = func(c record.Cell) float64 {
		return 300 + map[string]float64{"client": 300, "server": 300, "both": 600}[c[study.FactorSidecars]]
	}
	run := analysistest.Simulate(t, analysistest.QuickStudy, 8, seed, w)
	r := rand.New(rand.NewPCG(seed, 17))
	for i := range run.Trials {
		trial := &run.Trials[i]
		lag := 8 + 4*r.Float64()
		if r.Float64() < 1.0/3 {
			lag = 20 + 230*r.Float64()
			slower := hdrhistogram.New(1, 60_000_000_000, 3)
			for _, bar := range run.Hist[trial.ID].Intended.Distribution() {
				if bar.Count > 0 {
					_ = slower.RecordValues((bar.From+bar.To)/2+int64(2000*lag), bar.Count)
				}
			}
			run.Hist[trial.ID] = record.TrialHist{Intended: slower, Send: slower}
		}
		trial.Load.Lag.Set(0.5, lag)
		trial.Load.Intended.Set(0.5, stat.FromHistogram(run.Hist[trial.ID].Intended, 1e-3).Quantile(0.5))
	}
	return run
}

// Neighbours that hit all cells equally do not look like an overhead, as they would if a trial's lag
// were judged by its own latency instead of the baseline's.
func TestSimulationDisturbancesDoNotLookLikeOverhead(t *testing.T) {
	runs := 6
	if n, err := strconv.Atoi(os.Getenv("MESHTRIAL_SIMULATIONS")); err == nil {
		runs = n
	}
	bias, left := 0.0, 0.0
	for seed := range uint64(runs) {
		f := analysistest.Analyze(t, kinds, disturbed(t, seed))
		both := analysistest.Get(t, f, "latency_p50_overhead", record.Cell{study.FactorSidecars: study.SidecarsBoth})
		bias += (both.Estimate/600 - 1) / float64(runs)
		left += float64(f.Validity.Invalid) / float64(f.Validity.Trials*runs)
	}
	t.Logf("an overhead of 600 us is off by %+.1f%%, with %.0f%% of trials left out", bias*100, left*100)
	if math.Abs(bias) > 0.02 || left == 0 {
		t.Errorf("neighbours make %+.1f%% of overhead", bias*100)
	}
}

// withDrift gives all trials a drift; change selects different ones.
func withDrift(t *testing.T, common float64, change func(*record.Trial) (drift, lag float64)) record.Run {
	run := analysistest.Simulate(t, analysistest.QuickStudy, 6, 3, analysistest.Quiet())
	r := rand.New(rand.NewPCG(3, 17))
	for i := range run.Trials {
		trial := &run.Trials[i]
		p50 := stat.FromHistogram(run.Hist[trial.ID].Intended, 1e-3).Quantile(0.5)
		drift, lag := change(trial)
		moves := p50*(common+0.01*r.NormFloat64()) + drift
		trial.Drift = &record.Drift{FirstUS: p50 - moves/2, SecondUS: p50 + moves/2, ErrorUS: 2, Intervals: 8}
		trial.Load.Lag.Set(0.5, lag)
		trial.Load.Intended.Set(0.5, p50)
	}
	return run
}

// A trial is excluded for a lag or a drop in latency that is large relative to the baseline's 100
// us, in every cell alike. Reports count it and say why, and the given run is unmodified.
func TestUnfair(t *testing.T) {
	for _, c := range []struct {
		name       string
		drift, lag float64
		arrival    string
		limits     verdict.Limits
		check      string // that excludes the trials; "" if none does
	}{
		{name: "nothing", lag: 10},
		{name: "late", lag: 40, check: "schedule-lag"},
		{name: "late, and allowed", lag: 40, limits: verdict.Limits{"schedule-lag": 0.5}},
		{name: "a burst of 16 leaves one after another", lag: 90, arrival: study.ArrivalBurst},
		{name: "a late burst", lag: 120, arrival: study.ArrivalBurst, check: "schedule-lag"},
		{name: "falls", drift: -50, check: "steady"},
		{name: "falls, and may", drift: -50, limits: verdict.Limits{"steady": 1}},
		{name: "falls a little", drift: -15},
		{name: "rises, as a queue does", drift: 500},
	} {
		// The third trial of each block, whatever its cell.
		run := withDrift(t, 0, func(trial *record.Trial) (float64, float64) {
			if trial.Order == 2 {
				return c.drift, c.lag
			}
			return 0, 10
		})
		if c.arrival != "" {
			run = inArrival(run, c.arrival)
		}
		run.Header.Rules = c.limits.Rules(judged.Limits)
		f := analysistest.Analyze(t, kinds, run)
		want, reason := 0, ""
		if c.check != "" {
			want = 6
		}
		for _, r := range f.Validity.Reasons {
			reason += r.Check
			if !strings.HasPrefix(r.Example, "b000-t02: ") {
				t.Errorf("%s: %+v", c.name, r)
			}
		}
		if f.Validity.Invalid != want || reason != c.check {
			t.Errorf("%s: %+v", c.name, f.Validity)
		}
		for _, trial := range run.Trials {
			if !trial.Validity.Valid || len(trial.Validity.Checks) > 0 {
				t.Fatalf("%s: the run given has changed: %+v", c.name, trial.Validity)
			}
		}
	}
}

// inArrival returns the run of a study with other arrivals.
func inArrival(run record.Run, arrival string) record.Run {
	run.StudyYAML = []byte(strings.ReplaceAll(string(run.StudyYAML), "arrival: "+study.ArrivalPoisson, "arrival: "+arrival))
	for i := range run.Trials {
		run.Trials[i].Cell = run.Trials[i].Cell.With(record.Cell{study.FactorArrival: arrival})
	}
	return run
}

// A drift that most windows share makes no trial an exception, and is reported.
func TestCommonDrift(t *testing.T) {
	for common, want := range map[float64]string{
		-0.12: "median latency falls by 12% (±1%) from the first half of most windows to the second: windows begin before the system is steady",
		0.12:  "median latency rises by 12%",
		-0.01: "",
	} {
		f := analysistest.Analyze(t, kinds, withDrift(t, common, func(*record.Trial) (float64, float64) { return 0, 10 }))
		if got := note.Words(f.Warnings); strings.Contains(got, "most windows") != (want != "") || !strings.Contains(got, want) || f.Validity.Invalid > 0 {
			t.Errorf("%v: %d left out, warnings %q", common, f.Validity.Invalid, got)
		}
	}
}

// A startup transient that four noisy intervals cannot show, 50% slower with a time constant of two
// seconds, is called steady within a trial. The windows of a run's trials together reveal it.
func TestTransientIsTold(t *testing.T) {
	const interval, warmup, window = 0.1, 4, 8 // seconds, intervals, intervals
	r := rand.New(rand.NewPCG(8, 17))
	steady, trials := 0, 0
	medians := func(slower float64, from, n int) (out []float64) {
		for i := range n {
			at := (float64(from+i) + 0.5) * interval
			out = append(out, 100*(1+slower*math.Exp(-at/2))*(1+0.05*r.NormFloat64()))
		}
		return out
	}
	for slower, told := range map[float64]bool{0: false, 0.5: true} {
		run := analysistest.Simulate(t, analysistest.QuickStudy, 8, 3, analysistest.Quiet())
		for i := range run.Trials {
			trials++
			if (stat.Warmup{}).Detect(medians(slower, 0, warmup)).OK {
				steady++
			}
			d, ok := stat.DriftOf(medians(slower, warmup, window))
			if !ok {
				t.Fatal("no drift of eight intervals")
			}
			run.Trials[i].Drift = &record.Drift{FirstUS: d.First, SecondUS: d.Second, ErrorUS: d.SE, Intervals: d.N}
		}
		f := analysistest.Analyze(t, kinds, run)
		if got := f.Warnings; noteWindowsFall.In(got) != told {
			t.Errorf("%.0f%% slower at the start: warnings %q", slower*100, got)
		}
		if f.Validity.Invalid > 1 {
			t.Errorf("%.0f%% slower at the start: %+v", slower*100, f.Validity)
		}
	}
	t.Logf("%d of %d warm-ups are called steady", steady, trials)
}

// A run with CPU from kubelets states its precision, and reports user and kernel time together;
// memory is the working set.
func TestSampledCPU(t *testing.T) {
	run := analysistest.Simulate(t, analysistest.QuickStudy, 4, 3, analysistest.Quiet())
	if got := analysistest.Analyze(t, kinds, run).Warnings; noteKubelets.In(got) {
		t.Errorf("counters read at the edges: %s", got)
	}
	run.Header.Observed = record.ObservedKubelet
	for i := range run.Trials {
		trial := &run.Trials[i]
		trial.Sampled, trial.Memory = map[string]record.Sampled{}, map[string]record.Memory{}
		for part, cpu := range trial.CPU {
			used := cpu.TotalS()
			trial.CPU[part] = record.CPU{UserS: used}
			trial.Sampled[part] = record.Sampled{ErrorS: 0.0025 * used, LowS: 0.9 * used, HighS: 1.2 * used, GapS: 1.5}
			trial.Memory[part] = record.Memory{WorkingSetBytes: 7e6}
		}
	}
	run.Trials[0].Sampled[record.PartWorker] = record.Sampled{ErrorS: 0.013 * run.Trials[0].CPU[record.PartWorker].TotalS(), HighS: 1.2 * run.Trials[0].CPU[record.PartWorker].TotalS()}
	run.Trials[1].Validity.Valid = false
	run.Trials[1].Sampled[record.PartWorker] = record.Sampled{ErrorS: 1000}
	f := analysistest.Analyze(t, kinds, run)
	if got, want := note.Words(f.Warnings), "CPU is interpolated between samples up to 1.5 s apart: a trial's figure has a standard error of 0.25% (median; the largest 1.3%), and a maximum error of 100%"; !strings.Contains(got, want) {
		t.Errorf("%s", got)
	}
	both := record.Cell{study.FactorSidecars: study.SidecarsBoth}
	for _, c := range f.Cells {
		for part, cpu := range c.CPUPerRequest {
			if !cpu.Whole || cpu.SystemUS != 0 || cpu.UserUS <= 0 {
				t.Errorf("%s: %+v", part, cpu)
			}
		}
	}
	if m := analysistest.Get(t, f, "memory_client_proxy", both); m.Estimate != 7e6 {
		t.Errorf("%+v", m)
	}
}

// kinds has only this kind.
var kinds = analysis.Kinds{Kind()}
