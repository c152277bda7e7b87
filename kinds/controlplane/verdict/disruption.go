package verdict

import (
	"fmt"
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/drive/xds"
	"github.com/meshtrial/meshtrial/record"
)

// Disruption is what a trial observed of its disruption. Times are Unix nanoseconds by this
// machine's clock, except those of the outage, which are by the simulated proxies'.
type Disruption struct {
	Kind     string `json:"kind"`
	BeganNS  int64  `json:"began_unix_ns"`
	EndedNS  int64  `json:"ended_unix_ns"`
	Replicas int    `json:"replicas"` // requested number of istiod's replicas at the end
	// ReadyNS is when the last of the new replicas was seen ready; 0 if none was expected,
	// NotReady if they were not ready by the end.
	ReadyNS int64      `json:"ready_unix_ns,omitempty"`
	Outage  xds.Outage `json:"outage"`
	Looks   []Look     `json:"looks"`
	// Why is the first reason for an incomplete reading.
	Why string `json:"why,omitempty"`
}

// NotReady is the time of replicas that were not ready by the end.
const NotReady = -1

// Look is one reading of istiod's replicas and the proxies.
type Look struct {
	// Incomplete means that something could not be read.
	Incomplete bool          `json:"incomplete,omitempty"`
	AtNS       int64         `json:"at_unix_ns"`
	Synced     int           `json:"synced"`
	Replicas   []LookReplica `json:"replicas"`
}

// LookReplica is a replica in a reading. Negative connections, a negative CPU counter and zero
// memory mean that the value was not read.
type LookReplica struct {
	Pod         string `json:"pod"`
	Ready       bool   `json:"ready"`
	Connections int    `json:"connections"`
	CPUNS       int64  `json:"cpu_ns"` // since the start of the container
	CPUAtNS     int64  `json:"cpu_at_unix_ns"`
	MemoryBytes int64  `json:"memory_bytes"`
}

// refusedBy is gRPC's name for istiod's reason to reject a stream when its request rate limit is
// exhausted.
const refusedBy = "resource-exhausted"

// mostBlind is the number of incomplete readings allowed in addition to a tenth of all: a container
// that starts or ends during a reading proves nothing.
const mostBlind = 2

// evenWithin is the excess over its share that a replica may have while connections count as even.
const evenWithin = 0.25

// disruption records the effects of the disruption, and checks that it was observed.
func (r *ruling) disruption() {
	seen := r.seen.Disruption
	if seen == nil {
		return
	}
	d := disrupted(seen)
	r.trial.Control.Disruption = &d
	blind, last := 0, false
	for _, l := range seen.Looks {
		if last = l.Incomplete; last {
			blind++
		}
	}
	lack := fmt.Sprintf("%d of %d samples of istiod after the disruption are incomplete", blind, len(seen.Looks))
	if last {
		lack += ", including the last"
	}
	lack += after("; first ", seen.Why)
	r.Check("disruption-seen", !last && blind <= mostBlind+len(seen.Looks)/10, "%s", lack)
	if blind > 0 {
		r.Warn(noteBlind, lack)
	}
	for _, pod := range startedAnew(seen) {
		r.Warn(noteRestarted, pod)
	}
	if seen.Kind != "scale" {
		had := len(seen.Outage.LostNS) - seen.Outage.Spared()
		r.Check("disrupted", d.Lost > 0 && d.Lost == had, "%d of %d proxies that had a stream lost it", d.Lost, had)
	}
	if d.ReadyUS == NotReady {
		r.Warn(noteNotReady, d.WatchedS)
	}
	if missing := d.Lost - d.Back; missing > 0 {
		r.Warn(noteNotRestored, missing, d.Lost, d.WatchedS)
	}
}

// disrupted converts a disruption to its record.
func disrupted(seen *Disruption) record.Disruption {
	o := seen.Outage
	d := record.Disruption{Kind: seen.Kind, WatchedS: float64(seen.EndedNS-seen.BeganNS) / 1e9, Losses: o.Losses, Returns: o.Down.Count,
		Without: record.Latency{Quantiles: o.Down.Quantiles}}
	for i, lost := range o.LostNS {
		if lost == record.Never {
			continue
		}
		d.Lost++
		if back := o.BackNS[i]; back != record.Never {
			d.Back++
			d.RecoveredUS = append(d.RecoveredUS, (back-o.SinceUnixNS)/1000)
		}
	}
	slices.Sort(d.RecoveredUS)
	for why, n := range o.Ended {
		if why == refusedBy {
			d.Refused = n
		}
		d.Failed += n
	}
	d.Failed = max(0, d.Failed-d.Refused-o.Losses)
	if d.ReadyUS = seen.ReadyNS; seen.ReadyNS > 0 {
		d.ReadyUS = (seen.ReadyNS - seen.BeganNS) / 1000
	}
	looked(&d, seen)
	return d
}

// counter tracks the CPU counter of a replica's container.
type counter struct {
	last  LookReplica
	total int64 // nanoseconds, including earlier containers
}

// take adds a reading of a replica and returns the cores used since the previous reading, or 0 if
// that was of no container or a different one. known means that the replica existed before the
// disruption, so its usage until then does not count.
func (c *counter) take(r LookReplica, known bool) (cores float64) {
	before := c.last
	c.last = r
	switch {
	case before.Pod == "" && known:
	case before.Pod == "" || r.CPUNS < before.CPUNS: // started since
		c.total += r.CPUNS
	default:
		c.total += r.CPUNS - before.CPUNS
		if over := r.CPUAtNS - before.CPUAtNS; over > 0 {
			return float64(r.CPUNS-before.CPUNS) / float64(over)
		}
	}
	return 0
}

// looked fills in the results of readings of istiod.
func looked(d *record.Disruption, seen *Disruption) {
	counters := map[string]*counter{}
	d.Points = make([]record.DisruptionPoint, 0, len(seen.Looks))
	for _, l := range seen.Looks {
		point := record.DisruptionPoint{AtUS: (l.AtNS - seen.BeganNS) / 1000, Synced: l.Synced}
		cores, memory := 0.0, int64(0)
		for _, r := range l.Replicas {
			old := slices.ContainsFunc(seen.Looks[0].Replicas, func(b LookReplica) bool { return b.Pod == r.Pod })
			p := record.ReplicaPoint{Pod: r.Pod, New: !old, Ready: r.Ready, MemoryBytes: r.MemoryBytes}
			if r.Connections >= 0 {
				p.Connections = &r.Connections
			}
			memory += r.MemoryBytes
			if r.CPUNS >= 0 {
				c := counters[r.Pod]
				if c == nil {
					c = &counter{}
					counters[r.Pod] = c
				}
				cores += c.take(r, old)
				used := float64(c.total) / 1e9
				p.CPUS = &used
			}
			point.Replicas = append(point.Replicas, p)
		}
		if !l.Incomplete { // an incomplete sum is no sum
			d.CPUPeak, d.MemoryPeakBytes = max(d.CPUPeak, cores), max(d.MemoryPeakBytes, memory)
		}
		d.Points = append(d.Points, point)
	}
	for _, c := range counters {
		d.CPUS += float64(c.total) / 1e9
	}
	balance(d)
}

// startedAnew returns the pods whose CPU counter fell from one reading to the next, which means a
// new container, once for each occurrence.
func startedAnew(seen *Disruption) (pods []string) {
	last := map[string]int64{}
	for _, l := range seen.Looks {
		for _, r := range l.Replicas {
			if r.CPUNS < 0 {
				continue
			}
			if r.CPUNS < last[r.Pod] {
				pods = append(pods, r.Pod)
			}
			last[r.Pod] = r.CPUNS
		}
	}
	return pods
}

// balance fills in how evenly connections were spread at the end, and since when.
func balance(d *record.Disruption) {
	for _, p := range slices.Backward(d.Points) {
		share, known := imbalance(p)
		if !known && p.AtUS >= 0 {
			continue
		}
		if p.AtUS < 0 || math.IsInf(share, 1) {
			return
		}
		if d.Imbalance == nil {
			d.Imbalance = &share
		}
		if share > evenWithin {
			return
		}
		at := p.AtUS
		d.BalancedUS = &at
	}
}

// imbalance returns the excess of the fullest ready replica over their mean, as a share, which is
// infinite without connections. It returns false if a replica's number is unknown or there are not
// several.
func imbalance(p record.DisruptionPoint) (share float64, known bool) {
	most, sum, n := 0, 0, 0
	for _, r := range p.Replicas {
		if !r.Ready {
			continue
		}
		if r.Connections == nil {
			return 0, false
		}
		most, sum, n = max(most, *r.Connections), sum+*r.Connections, n+1
	}
	switch {
	case n < 2:
		return 0, false
	case sum == 0:
		return math.Inf(1), true
	}
	return float64(most)*float64(n)/float64(sum) - 1, true
}
