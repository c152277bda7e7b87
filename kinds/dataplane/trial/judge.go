package trial

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/meshtrial/meshtrial/load"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/protocol"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/runner"
	"github.com/meshtrial/meshtrial/study"
)

// Limits of what a trial may be believed with.
const (
	// maxFailedRatio of the window's requests may fail or stay unfinished:
	// the latencies leave them out.
	maxFailedRatio = 0.001
	// maxLagRatio is how much of the median latency the generator's own
	// median lateness may be: more, and it did not keep the schedule at all.
	// What lateness in the tail means for a finding is weighed beside the
	// finding's effect, in package analysis.
	maxLagRatio = 0.25
	// maxGeneratorCPU is the share of a CPU above which one loop of the
	// generator cannot be trusted to keep its schedule.
	maxGeneratorCPU = 0.9
	// maxEdgeRatio is how far the CPU counters' edges may be from the
	// window's, as a share of it.
	maxEdgeRatio = 0.01
)

// judge fills in the trial's validity.
func (t *trialRun) judge(out *record.Trial, window *load.Window, sampled map[string]edges, e mesh.Evidence) {
	v := &out.Validity
	check := func(name string, ok bool, format string, args ...any) {
		v.Checks = append(v.Checks, record.Check{Name: name, OK: ok, Detail: fmt.Sprintf(format, args...)})
	}
	warn := func(format string, args ...any) { v.Warnings = append(v.Warnings, fmt.Sprintf(format, args...)) }

	l := out.Load
	check("account", window.Balanced(), "scheduled %d = completed %d + failed %d + unfinished %d",
		l.Scheduled, l.Completed, window.FailedTotal(), l.Unfinished)
	lost := window.FailedTotal() + l.Unfinished
	check("served", l.Completed > 0 && float64(lost) <= maxFailedRatio*float64(l.Scheduled),
		"%d of %d requests failed or stayed unfinished%s", lost, l.Scheduled, kindsOf(l.Failed))
	if t.cell[study.FactorRate] != study.RateMax {
		check("schedule-lag", l.Lag.P50 <= maxLagRatio*l.Intended.P50+t.burst(),
			"the generator was late by %.0f us at the median, beside a median latency of %.0f us (at p99 by %.0f beside %.0f)",
			l.Lag.P50, l.Intended.P50, l.Lag.P99, l.Intended.P99)
		share := l.CPU.TotalS() / (out.Window.Seconds * float64(max(1, t.spec.Threads)))
		check("generator-cpu", share <= maxGeneratorCPU, "the generator used %.0f%% of a CPU", share*100)
	}
	t.checkEdges(out, sampled, check)
	// Of what is echoed a worker counts what each read returned.
	if e.Worker != nil && !protocol.Of(t.cell[study.FactorProtocol]).Echo {
		v.Checks = append(v.Checks, mesh.Expect("worker-requests", e.Worker["requests"],
			float64(e.Requests)+float64(e.Unknown)/2, float64(e.Unknown)/2, "requests the worker served"))
	}
	v.Checks = append(v.Checks, t.o.Mesh.Verify(e)...)

	if !out.Warmup.Steady {
		warn("%s", out.Warmup.Why)
	}
	if p := out.Pressure; p != nil && p.StealRatio > runner.WarnSteal {
		warn("the hypervisor took %.1f%% of the CPU time", p.StealRatio*100)
	}
	v.Valid = true
	for _, c := range v.Checks {
		v.Valid = v.Valid && c.OK
	}
}

// kindsOf lists failures by kind, "" if there are none.
func kindsOf(failed map[string]int64) string {
	out := ""
	for _, kind := range slices.Sorted(maps.Keys(failed)) {
		out += fmt.Sprintf(", %s %d", kind, failed[kind])
	}
	return out
}

// sendTime is what it may take the generator to send one request of many
// that are due at once, in microseconds.
const sendTime = 10

// burst is how long the middle request of a burst may wait for those sent
// before it, in microseconds: they leave one after another, as from any
// generator. It is 0 for arrivals that are not bursts.
func (t *trialRun) burst() float64 {
	if t.cell[study.FactorArrival] != study.ArrivalBurst {
		return 0
	}
	return sendTime * float64(t.spec.Connections) / 2
}

// checkEdges compares when the counters were read with when the window
// began and ended.
func (t *trialRun) checkEdges(out *record.Trial, sampled map[string]edges, check func(string, bool, string, ...any)) {
	start := out.Window.Start
	end := start.Add(time.Duration(out.Window.Seconds * float64(time.Second)))
	worst := time.Duration(0)
	for node, e := range sampled {
		worst = max(worst,
			time.Unix(0, e.before.EndNS).Sub(start.Add(t.skew[node])).Abs(),
			time.Unix(0, e.after.EndNS).Sub(end.Add(t.skew[node])).Abs())
	}
	limit := time.Duration(maxEdgeRatio * out.Window.Seconds * float64(time.Second))
	check("cpu-edges", worst <= limit, "CPU counters were read within %v of the window's edges, limit %v", worst.Round(time.Microsecond), limit)
}
