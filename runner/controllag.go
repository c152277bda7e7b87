package runner

import (
	"fmt"
	"math"
	"slices"

	"github.com/meshmark/meshmark/record"
	"github.com/meshmark/meshmark/xds"
)

// judgeLag checks how late the simulated sidecars were. When a message was
// received is the kernel's time of its last byte, which no lateness moves; but
// the sidecar reads, works and answers later, so that every acknowledgement,
// and with it the convergence, is later by that. Both that lag and the whole
// time from each receipt to its acknowledgement, of sidecars that mean well,
// are weighed against the convergence. Where the kernel gives no times, the
// lag of timers is all that is known; then it is in the times of receipt too.
func (t *controlTrial) judgeLag(events []record.Event, sum toll, check func(string, bool, string, ...any), warn func(string, ...any)) {
	const name = "simulator-lag"
	a := t.accountAfter
	if a.LagCount == 0 {
		check(name, false, "nothing tells how late the simulated sidecars were: no message and no timer was seen in the window")
		return
	}
	lag := fmt.Sprintf("the simulated sidecars read what had arrived late by %.0f us at the median and %.0f at p99", a.Lag.P50, a.Lag.P99)
	if a.LagSource == xds.LagTimer {
		lag = fmt.Sprintf("the simulated sidecars' timers were late by %.0f us at the median and %.0f at p99", a.Lag.P50, a.Lag.P99)
		warn("the kernel gave no times of what arrived: receipts are later by what the simulated sidecars took to read, about as late as their timers are")
	}
	acks, own := t.acknowledged(events)
	if len(acks) == 0 {
		// Nothing to weigh it against; where nothing was to come, nothing is
		// wrong with that.
		check(name, sum.due == 0 && a.Lag.P99 <= mostSimulatorLag, "%s; of %d pairs of a change and a sidecar none was acknowledged to compare that with (at most %.0f us)", lag, sum.due, mostSimulatorLag)
		return
	}
	ok := true
	var beside, answered []string
	for _, q := range []struct {
		name string
		q    float64
		lag  float64
	}{{"median", 0.5, a.Lag.P50}, {"p99", 0.99, a.Lag.P99}} {
		whole, part := ranked(acks, q.q), ranked(own, q.q)
		limit := min(max(leastSimulatorLag, maxSimulatorLag*whole), mostSimulatorLag)
		ok = ok && q.lag <= limit && part <= limit
		beside = append(beside, fmt.Sprintf("%.0f us at the %s (limit %.0f)", whole, q.name, limit))
		answered = append(answered, fmt.Sprintf("%.0f", part))
	}
	check(name, ok, "%s (%s), and acknowledged by %s us after the receipt, beside a convergence of %s and %s",
		lag, a.LagSource, answered[0]+" and "+answered[1], beside[0], beside[1])
}

// acknowledged are the times from commits to the acknowledgements of simulated
// sidecars, and, of those that mean well, from receipts to them; microseconds
// in order.
func (t *controlTrial) acknowledged(events []record.Event) (acks, own []float64) {
	bad := t.misbehaving()
	for _, e := range events {
		for i, us := range e.Seen.AckedUS {
			if us == never {
				continue
			}
			acks = append(acks, float64(us))
			if received := e.Seen.ReceivedUS[i]; received != never && !bad[e.Seen.Proxy[i]] {
				own = append(own, float64(us-received))
			}
		}
	}
	slices.Sort(acks)
	slices.Sort(own)
	return acks, own
}

// ranked is a quantile of values in order: the smallest that as many of them
// do not exceed; 0 of none.
func ranked(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	return values[max(0, int(math.Ceil(q*float64(len(values))))-1)]
}

// judgeCosts weighs the simulated sidecars' own cost.
func (t *controlTrial) judgeCosts(warn func(string, ...any)) {
	simulator, istiod := t.out.CPU[partSimulator].TotalS(), t.out.CPU[record.PartControl].TotalS()
	if istiod > 0 && simulator > maxSimulatorShare*istiod {
		warn("the simulated sidecars used %.0f%% of the CPU that istiod used", 100*simulator/istiod)
	}
}
