package push

// Result is what came of a simulation, all replicas together.
type Result struct {
	// Convergence is from each change's commit until each proxy that needs it
	// has acknowledged it.
	Convergence Histogram
	// Connecting is how long returning proxies took to have their
	// configuration; Refused is how often they were turned away meanwhile.
	Connecting Histogram
	Refused    float64

	Needed      float64 // change-proxy pairs there were
	Undelivered float64 // of them, not acknowledged within Settle
	Changes     int
	Contexts    float64 // push contexts made, by all replicas
	Turns       float64 // of proxies that needed something
	Skipped     float64 // of proxies that needed nothing
	Pushes      [Types]float64
	Bytes       [Types]float64
	// Of the pushes by type, those that sent all of it, and those for which istiod
	// made it anew; Own is how many changes had a part of their own in the rest.
	Whole, Anew, Own [Types]float64
	// Waited is from a push's beginning until a turn that needed it was over,
	// summed over turns, as pilot_proxy_convergence_time has it.
	Waited float64
	// CPU is istiod's CPU time without what it uses idle, over the whole
	// simulation.
	CPU float64
	// Seconds is when the last change was acknowledged, or the horizon.
	Seconds float64
	// Stale is for how long proxies lacked anything that they needed, summed
	// over proxies.
	Stale float64
	// Overlapped is the share of pushes that began while a proxy still waited
	// for one before.
	Overlapped float64
	// Drained says that the queue of every replica was empty, and no turn under way, at some time in the second half of
	// the horizon: that istiod keeps up.
	Drained bool
	// Longest is the longest queue of a replica, proxies.
	Longest float64
}

// Bytes of all types together.
func (r *Result) AllBytes() float64 { return sum(r.Bytes) }

// AllPushes are those of all types together, as istiod counts them.
func (r *Result) AllPushes() float64 { return sum(r.Pushes) }

func sum(by [Types]float64) float64 {
	total := 0.0
	for _, v := range by {
		total += v
	}
	return total
}

// add puts in what a replica did, of which there are several.
func (r *Result) add(o *Result, times float64) {
	r.Convergence.Merge(&o.Convergence, times)
	r.Connecting.Merge(&o.Connecting, times)
	r.Refused += o.Refused * times
	r.Needed += o.Needed * times
	r.Undelivered += o.Undelivered * times
	r.Overlapped = (r.Overlapped*r.Contexts + o.Overlapped*o.Contexts*times) / max(r.Contexts+o.Contexts*times, 1)
	r.Contexts += o.Contexts * times
	r.Turns += o.Turns * times
	r.Waited += o.Waited * times
	r.Skipped += o.Skipped * times
	for t := range Types {
		r.Pushes[t] += o.Pushes[t] * times
		r.Bytes[t] += o.Bytes[t] * times
		r.Whole[t] += o.Whole[t] * times
		r.Anew[t] += o.Anew[t] * times
		r.Own[t] += o.Own[t] * times
	}
	r.CPU += o.CPU * times
	r.Seconds = max(r.Seconds, o.Seconds)
	r.Stale += o.Stale * times
	r.Drained = r.Drained && o.Drained
	r.Longest = max(r.Longest, o.Longest)
}
