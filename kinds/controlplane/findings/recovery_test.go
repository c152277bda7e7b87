package findings

import (
	"math"
	"testing"

	"github.com/meshtrial/meshtrial/analysis/analysistest"
	"github.com/meshtrial/meshtrial/internal/note/notetest"
	"github.com/meshtrial/meshtrial/record"
)

const stormStudy = `
name: storm
question: How long until all are back?
control: {changes: 1, settle: 2s}
settings: {proxies: 4, change: no-op}
factors:
  disruption: [drop, kill]
baseline: {disruption: drop}
measures: [recovery, cost]
blocks: {min: 3, max: 12}
`

// stormRun makes four proxies lose their stream and return after 1, 2, 3 and 10 s.
func stormRun(t *testing.T, spoil func(cell record.Cell, d *record.Disruption), more ...func(*record.Control)) record.Findings {
	t.Helper()
	return analysistest.Analyze(t, kinds, analysistest.SimulateControl(t, stormStudy, 3, func(cell record.Cell) analysistest.ControlWorld {
		return analysistest.ControlWorld{DebounceMS: 100, Pushes: 1, Spoil: func(trial *record.Trial, _ []record.Event) {
			noise := 1 + 0.01*float64(trial.Block-1)
			at := func(s float64) int64 { return int64(s * noise * 1e6) }
			d := &record.Disruption{Kind: "drop", Lost: 4, Back: 4, RecoveredUS: record.Times{at(1), at(2), at(3), at(10)}, Losses: 5, Returns: 5, Refused: 7, Failed: 2,
				Without: record.LatencyAt(0.5, 2e6*noise, 0.99, 9e6*noise), CPUS: 10 * noise, CPUPeak: 1.5 * noise, MemoryPeakBytes: int64(200e6 * noise)}
			spoil(cell, d)
			trial.Control.Disruption = d
			for _, edit := range more {
				edit(trial.Control)
			}
		}}
	}))
}

// after returns a finding of a disruption.
func after(f record.Findings, disruption, name string) record.Finding {
	for _, x := range f.Findings {
		if x.Name == name && x.Cell["disruption"] == disruption {
			return x
		}
	}
	return record.Finding{}
}

func TestRecoveryFindings(t *testing.T) {
	f := stormRun(t, func(cell record.Cell, d *record.Disruption) {
		if cell["disruption"] == "kill" {
			uneven, at := 0.4, int64(6e6)
			d.ReadyUS, d.Imbalance, d.BalancedUS = 4e6, &uneven, &at
		}
	})
	for name, want := range map[string]float64{"recovery_first": 1e6, "recovery_p50": 2e6, "recovery_p99": 10e6, "recovery_last": 10e6, "without_p50": 2e6, "without_p99": 9e6,
		"streams_lost": 5, "streams_refused": 7, "streams_failed": 2, "istiod_cpu_peak": 1.5, "istiod_cpu_per_return": 2e6, "istiod_memory_peak": 200e6,
		"istiod_ready_time": 4e6, "connection_imbalance": 0.4, "balance_time": 6e6} {
		if x := after(f, "kill", name); x.Verdict != record.VerdictMeasured || math.Abs(x.Estimate/want-1) > 0.02 {
			t.Errorf("%s: want %v, %+v", name, want, x)
		}
	}
	for _, name := range []string{"istiod_ready_time", "connection_imbalance", "balance_time"} { // not applicable
		if x := after(f, "drop", name); x.Verdict == record.VerdictMeasured {
			t.Errorf("%+v", x)
		}
	}
}

// If a proxy never returned there is no last one, and trials in which all returned do not replace
// it.
func TestRecoveryThatNeverCame(t *testing.T) {
	f := stormRun(t, func(cell record.Cell, d *record.Disruption) {
		if cell["disruption"] == "kill" {
			uneven := 2.0
			d.Back, d.RecoveredUS, d.Imbalance = 3, d.RecoveredUS[:3], &uneven
		}
	})
	for _, name := range []string{"recovery_last", "recovery_p99", "balance_time"} {
		x := after(f, "kill", name)
		if x.Verdict != record.VerdictInvalid || x.Reason != record.ReasonNotReached {
			t.Errorf("%+v", x)
		}
		notetest.Args(t, x.Warnings, "never_came", []any{3, 3})
	}
	for _, name := range []string{"recovery_p50", "recovery_first"} {
		if x := after(f, "kill", name); x.Verdict != record.VerdictMeasured {
			t.Errorf("%+v", x)
		}
	}
	if got := recoveredBy(&record.Disruption{}, 1); !math.IsNaN(got) {
		t.Errorf("of no proxy: %v", got)
	}
}

// What was not over at the end is later than everything observed: an istiod that was never ready,
// and proxies that never recovered.
func TestRecoveryThatWasCutOff(t *testing.T) {
	f := stormRun(t, func(cell record.Cell, d *record.Disruption) {
		if cell["disruption"] == "kill" {
			d.ReadyUS, d.Returns = -1, 4
		}
	})
	for name, reached := range map[string]bool{"istiod_ready_time": false, "without_p99": false, "without_p50": true} {
		if x := after(f, "kill", name); (x.Verdict == record.VerdictMeasured) != reached || (x.Reason == record.ReasonNotReached) == reached {
			t.Errorf("%s: %+v", name, x)
		}
	}
}

// If many other proxies are connected, istiod's CPU is theirs too and is not attributed to the
// study's alone.
func TestCPUPerReturnBesideOthers(t *testing.T) {
	for others, told := range map[int]bool{1: true, 30: false} {
		f := stormRun(t, func(cell record.Cell, d *record.Disruption) {
			n := 40 + others
			d.Points = []record.DisruptionPoint{{Replicas: []record.ReplicaPoint{{Pod: "a", Ready: true, Connections: &n}}}}
		}, func(c *record.Control) { c.Proxies, c.Gateways, c.RealProxies = 40, 0, 0 })
		if got := after(f, "kill", "istiod_cpu_per_return").Verdict == record.VerdictMeasured; got != told {
			t.Errorf("%d others: %v", others, got)
		}
	}
}
