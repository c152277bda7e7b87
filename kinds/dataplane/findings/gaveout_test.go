package findings

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/meshtrial/meshtrial/analysis/analysistest"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

const rateSearch = `
name: far
question: How far?
factors:
  sidecars: [none, both]
  rate: [500, 1000, 2000, 4000, 8000]
baseline: {}
search: [{factor: rate, finding: latency_p99, bound: 10 ms, tolerance: 10%}]
blocks: {min: 1, max: 3}
stop: none
measures: [latency, pressure, threads]
`

// rateRun returns a run in which the pair with sidecars is slow beyond one rate, and the pair
// without beyond another. how defines what trials with sidecars show then, bare what those without
// do, in addition to being slow.
func rateRun(t *testing.T, both, none float64, how func(*record.Trial), bare ...func(*record.Trial)) record.Run {
	slow := hdrhistogram.New(1, 60_000_000_000, 3)
	for range 1000 {
		_ = slow.RecordValue(50_000_000)
	}
	var late []string
	w := analysistest.Quiet()
	w.Spoil = func(t *record.Trial) {
		rate, _ := strconv.ParseFloat(t.Cell[study.FactorRate], 64)
		t.Pressure = &record.Pressure{BusyRatio: 0.5}
		sidecars, limit := study.HasClientProxy(t.Cell), none
		if sidecars {
			limit = both
			t.Threads = map[string]record.Threads{record.PartClientProxy: proxyThreads(0.01, [2]float64{0.4, 0.01}, [2]float64{0.4, 0.01})}
		}
		if rate > limit {
			late = append(late, t.ID)
			switch {
			case sidecars:
				how(t)
			case len(bare) > 0:
				bare[0](t)
			}
		}
	}
	run := analysistest.Simulate(t, rateSearch, 3, 11, w)
	for _, id := range late {
		run.Hist[id] = record.TrialHist{Intended: slow, Send: slow}
	}
	return run
}

// failing makes a trial fail one check.
func failing(check, detail string) func(*record.Trial) {
	return func(t *record.Trial) {
		t.Validity = record.Validity{Checks: []record.Check{{Name: check, Detail: detail}}}
	}
}

var (
	notCarried   = failing("backlog", "2 requests were due and not answered at the window's start, 900 at its end")
	requestsLost = failing("served", "90 of 1000 requests failed")
	generator    = failing("generator-cpu", "the generator used 96% of a CPU")
)

func fullThreads(t *record.Trial) {
	t.Threads[record.PartClientProxy] = proxyThreads(0.01, [2]float64{0.95, 0.01}, [2]float64{0.94, 0.01})
}

// A search along the rate climbs, bisects and confirms, and its end is the proxies' limit only if
// they caused it. The tail jumps fifty-fold here, between 2,830 and 3,080: the interval is a level
// wider at both ends.
func TestHowFarTheRateGoes(t *testing.T) {
	for _, c := range []struct {
		name        string
		both, none  float64
		how         func(*record.Trial)
		low, high   float64 // of both
		verdict     string
		says        []string
		lowN, highN float64 // without sidecars
		bare        []func(*record.Trial)
	}{
		{name: "threads are full", both: 2900, none: 1e9, how: fullThreads, low: 2590, high: 3360, verdict: record.VerdictMeasured, says: []string{"beyond the bound of 10 ms", "its concurrency of 2 limits it"}, lowN: 8000, highN: 8000},
		{name: "queues, but nothing is full", both: 2900, none: 1e9, how: func(*record.Trial) {}, low: 2590, high: 3360, verdict: record.VerdictMeasured, says: []string{"beyond the bound of 10 ms"}, lowN: 8000, highN: 8000},
		{name: "the machine is full", both: 2900, none: 1e9, how: func(t *record.Trial) { t.Pressure.BusyRatio = 0.97 }, low: 2830, high: 2830, verdict: record.VerdictInconclusive,
			says: []string{"the machine's CPUs were 97% busy", "something else is the bottleneck"}, lowN: 8000, highN: 8000},
		{name: "threads are full on a full machine", both: 2900, none: 1e9, how: func(t *record.Trial) { fullThreads(t); t.Pressure.BusyRatio = 0.97 }, low: 2830, high: 2830, verdict: record.VerdictInconclusive,
			says: []string{"97% busy"}, lowN: 8000, highN: 8000},
		{name: "the generator cannot", both: 2900, none: 1e9, how: generator, low: 2830, high: 2830, verdict: record.VerdictInconclusive, says: []string{"96% of a CPU"}, lowN: 8000, highN: 8000},
		{name: "requests are lost", both: 2900, none: 1e9, how: requestsLost, low: 2590, high: 3360, verdict: record.VerdictMeasured, says: []string{"90 of 1000 requests failed"}, lowN: 8000, highN: 8000},
		{name: "more and more requests wait", both: 2900, none: 1e9, how: notCarried, low: 2590, high: 3360, verdict: record.VerdictMeasured, says: []string{"900 at its end"}, lowN: 8000, highN: 8000},
		{name: "more and more wait without sidecars too", both: 2900, none: 2950, how: notCarried, low: 2830, high: 2830, verdict: record.VerdictInconclusive,
			says: []string{"without sidecars as well", "900 at its end"}, lowN: 2590, highN: 3360, bare: []func(*record.Trial){notCarried}},
		{name: "neither can without sidecars", both: 2900, none: 2950, how: func(*record.Trial) {}, low: 2830, high: 2830, verdict: record.VerdictInconclusive,
			says: []string{"without sidecars latency_p99 is"}, lowN: 2590, highN: 3360},
	} {
		t.Run(c.name, func(t *testing.T) {
			run, tried := analysistest.Climbed(t, kinds, rateRun(t, c.both, c.none, c.how, c.bare...), 2)
			f := analysistest.Analyze(t, kinds, run)
			x := analysistest.Get(t, f, "highest_rate", record.Cell{"sidecars": "both"})
			if x.Low != c.low || x.High != c.high || (x.Open == record.OpenHigh) != (c.low == c.high) || x.Verdict != c.verdict || x.Blocks != 2 {
				t.Errorf("%+v\n%v", x, tried)
			}
			for _, part := range c.says {
				if !strings.Contains(note.Words(x.Warnings), part) {
					t.Errorf("%q lacks %q", x.Warnings, part)
				}
			}
			if x := analysistest.Get(t, f, "highest_rate", record.Cell{"sidecars": "none"}); x.Low != c.lowN || x.High != c.highN || (x.Open == record.OpenHigh) != (c.lowN == c.highN) {
				t.Errorf("without sidecars %+v", x)
			}
			// Each block tries both ends: the second needs no more.
			if second := slices.DeleteFunc(tried, func(s string) bool { return !strings.HasPrefix(s, "1:") }); len(second) > 4 {
				t.Errorf("the second block tried %v", second)
			}
		})
	}
}

// Blocks whose percentile falls among failed requests are beyond the knee, rather than excluded.
func TestKneeFailed(t *testing.T) {
	all := rateRun(t, 1e9, 1e9, func(*record.Trial) {})
	for i := range all.Trials {
		one := &all.Trials[i]
		if rps, _ := strconv.ParseFloat(one.Cell[study.FactorRate], 64); rps >= 4000 && one.Block < 2 && study.HasClientProxy(one.Cell) {
			one.Load.Failed = map[string]int64{"timeout": 1000}
		}
	}
	x := analysistest.Get(t, analysistest.Analyze(t, kinds, all), "knee_rate", record.Cell{"sidecars": "both"})
	if x.Low >= 4000 || x.High != 4000 || !strings.Contains(note.Words(x.Warnings), "among requests that failed at 4,000") {
		t.Errorf("%+v", x)
	}
}

func TestKnee(t *testing.T) {
	run, _ := analysistest.Climbed(t, kinds, rateRun(t, 2900, 1e9, fullThreads), 2)
	f := analysistest.Analyze(t, kinds, run)
	x := analysistest.Get(t, f, "knee_rate", record.Cell{"sidecars": "both"})
	if x.Low != 2830 || x.High != 3080 || x.Open != "" || !strings.Contains(note.Words(x.Warnings), "50 ms at 3,080") {
		t.Errorf("%+v", x)
	}
	x = analysistest.Get(t, f, "knee_rate", record.Cell{"sidecars": "none"})
	if x.Low != 8000 || x.High != 8000 || x.Open != record.OpenHigh || !strings.Contains(note.Words(x.Warnings), "no measured rate is beyond the knee") {
		t.Errorf("%+v", x)
	}
}

// If the generator or the machine failed, the knee is unknown: it lies above the last rate within
// the bound, or where other rates show.
func TestKneeIsTheProxies(t *testing.T) {
	for name, c := range map[string]struct {
		both, none float64
		how        func(*record.Trial)
		low, high  float64
		verdict    string
		says       string
	}{
		"the generator cannot":               {2900, 1e9, generator, 2000, 2000, record.VerdictInconclusive, "96% of a CPU"},
		"the machine is full":                {2900, 1e9, func(t *record.Trial) { t.Pressure.BusyRatio = 0.97 }, 2000, 2000, record.VerdictInconclusive, "97% busy"},
		"neither can without sidecars":       {2900, 2900, func(*record.Trial) {}, 2000, 2000, record.VerdictInconclusive, "without sidecars latency_p99 is"},
		"something else made trials invalid": {2900, 1e9, failing("account", ""), 2000, 2000, record.VerdictInconclusive, "is not known"},
		"requests are lost":                  {2900, 1e9, requestsLost, 2000, 4000, record.VerdictMeasured, "without a valid trial at 4,000"},
		"threads are full, and above the generator cannot": {2900, 1e9, func(t *record.Trial) {
			if fullThreads(t); t.Cell[study.FactorRate] == "8000" {
				generator(t)
			}
		}, 2000, 4000, record.VerdictMeasured, "50 ms at 4,000"},
		"the generator cannot at one, threads are full above": {2900, 1e9, func(t *record.Trial) {
			if fullThreads(t); t.Cell[study.FactorRate] == "4000" {
				generator(t)
			}
		}, 2000, 8000, record.VerdictMeasured, "50 ms at 8,000"},
	} {
		x := analysistest.Get(t, analysistest.Analyze(t, kinds, given(rateRun(t, c.both, c.none, c.how))), "knee_rate", record.Cell{"sidecars": "both"})
		if x.Low != c.low || x.High != c.high || x.Verdict != c.verdict || (x.Open == record.OpenHigh) != (c.low == c.high) || !strings.Contains(note.Words(x.Warnings), c.says) {
			t.Errorf("%s: %+v", name, x)
		}
	}
}

// given returns a run restricted to the study's own rates.
func given(run record.Run) record.Run {
	run.Trials = slices.DeleteFunc(run.Trials, func(t record.Trial) bool {
		return !slices.Contains([]string{"500", "1000", "2000", "4000", "8000"}, t.Cell[study.FactorRate])
	})
	return run
}
