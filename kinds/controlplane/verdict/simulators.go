package verdict

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/meshtrial/meshtrial/drive/xds"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/verdict"
)

// simulatorsApart limits the difference between the clocks of different simulator pods.
var simulatorsApart = verdict.Limit{Name: "simulators-apart", Default: 1, Unit: "ms",
	Doc: "maximum offset between the clocks of several simulators, after correction for their offset before the window"}

// simulators checks that the simulator pods together observed what a single one would have: all
// proxies, each once, by one clock. The clock check is inconclusive if the error bounds are wider
// than the limit.
func (r *ruling) simulators() {
	all, asked := r.trial.Control.Simulators, controlplane.SimulatorsIn(r.trial.Cell)
	if asked == 1 && len(all) == 0 {
		return
	}
	proxies, clocks := 0, make([]verdict.Clocks, len(all))
	for i, s := range all {
		proxies += s.Proxies
		clocks[i] = verdict.Clocks{Pod: s.Pod, Before: s.Before, After: s.After}
	}
	simulated, counted := r.seen.Audience.Simulated, r.seen.AccountAfter.Proxies
	r.Check("simulators", len(all) == asked && proxies == simulated && counted == simulated,
		"%d of %d simulators had %d of the %d simulated proxies, and their records cover %d", len(all), asked, proxies, simulated, counted)
	least, most, of := verdict.Apart(clocks)
	for _, s := range all { // the first offset was subtracted, so the second comparison shows what remains
		least = max(least, math.Abs(s.After.AheadUS-s.Before.AheadUS)-s.After.ErrorUS)
	}
	limit := float64(r.lasting(simulatorsApart)) / float64(time.Microsecond)
	r.Check(simulatorsApart.Name, least <= limit, "the simulators' clocks were between %.0f and %.0f us apart%s, once corrected; limit %.0f", least, most, of, limit)
	if least <= limit && most > limit {
		r.Warn(noteClocksApart, most/1e3)
	}
}

// lag checks how late the simulated sidecars were. The time of receipt is the kernel's time of a
// message's last byte, which lateness does not affect. But the sidecar reads, works and answers
// later, which delays every acknowledgement and so the convergence. lag compares both that delay
// and the whole turn, from receipt until the answer was written, with the convergence. An
// acknowledgement that waits for further messages from istiod is not late, such as Envoy's
// acknowledgement of new clusters, which waits for their endpoints. Without the kernel's times only
// the lag of timers is known, and the times of receipt include it too.
func (r *ruling) lag() {
	const name = "simulator-lag"
	a := r.seen.AccountAfter
	if a.LagCount == 0 {
		r.Check(name, false, "how late the simulated sidecars were is unknown: there was no message and no timer in the window")
		return
	}
	who := ""
	if n := len(r.trial.Control.Simulators); n > 1 {
		who = fmt.Sprintf(" of the busiest of %d simulators", n)
	}
	lag := fmt.Sprintf("the simulated sidecars%s read arrived messages %.0f us late at the median and %.0f at p99", who, a.Lag.At(0.5), a.Lag.At(0.99))
	if a.LagSource == xds.LagTimer {
		lag = fmt.Sprintf("the timers of the simulated sidecars%s were %.0f us late at the median and %.0f at p99", who, a.Lag.At(0.5), a.Lag.At(0.99))
		r.Warn(noteNoArrivals)
	}
	acks, most := acknowledged(r.events), r.limits.Of(simulatorLagMost)
	if len(acks) == 0 {
		// There is nothing to compare with. If nothing was due, that is fine.
		r.Check(name, r.sum.due == 0 && a.Lag.At(0.99) <= most, "%s; of %d pairs of a change and a sidecar none was acknowledged to compare that with (at most %.0f us)", lag, r.sum.due, most)
		return
	}
	ok := true
	var beside []string
	for _, q := range []struct {
		name string
		q    float64
		lag  float64
	}{{"median", 0.5, max(a.Lag.At(0.5), a.Turn.At(0.5))}, {"p99", 0.99, max(a.Lag.At(0.99), a.Turn.At(0.99))}} {
		whole := ranked(acks, q.q)
		limit := min(max(r.limits.Of(simulatorLagLeast), r.limits.Of(simulatorLag)*whole), max(most, r.limits.Of(simulatorLagTiny)*whole))
		ok = ok && q.lag <= limit
		beside = append(beside, fmt.Sprintf("%.0f us at the %s (limit %.0f)", whole, q.name, limit))
	}
	r.Check(name, ok, "%s (%s), and had acknowledged %.0f and %.0f us after receipt, compared with a convergence of %s and %s",
		lag, a.LagSource, a.Turn.At(0.5), a.Turn.At(0.99), beside[0], beside[1])
}

// acknowledged returns the times from commits to the acknowledgements of simulated sidecars, in
// microseconds, sorted.
func acknowledged(events []record.Event) (acks []float64) {
	for _, e := range events {
		for _, us := range e.Seen.AckedUS {
			if us != record.Never {
				acks = append(acks, float64(us))
			}
		}
	}
	slices.Sort(acks)
	return acks
}

// ranked returns a quantile of sorted values: the smallest value not exceeded by this share of
// them; 0 without values.
func ranked(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	return values[max(0, int(math.Ceil(q*float64(len(values))))-1)]
}

// costs checks the cost of measuring: that of the simulated sidecars and of polling real Envoys.
func (r *ruling) costs() {
	cpu := r.trial.CPU
	simulator, istiod := cpu[record.PartSimulator].TotalS(), cpu[record.PartControl].TotalS()
	if r.seen.Audience.Simulated > 0 && istiod > 0 && simulator > r.limits.Of(simulatorCPU)*istiod {
		r.Warn(noteSimulatorCPU, 100*simulator/istiod)
	}
	own, all := cpu[record.PartServerProxy].TotalS(), cpu[record.PartMachine].TotalS()
	if c := r.trial.Control; c.Traffic == nil && c.Sidecars == nil && all > 0 && own > r.limits.Of(realCPU)*all {
		r.Warn(noteEnvoysCPU, 100*own/all)
	}
}
