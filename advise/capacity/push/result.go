package push

// Result is the outcome of a simulation, over all replicas.
type Result struct {
	// Convergence is the time from each change's commit until each proxy that needs it has
	// acknowledged it.
	Convergence Histogram
	// Connecting is the time that returning proxies took to get their configuration; Refused counts
	// the refusals in that time.
	Connecting Histogram
	Refused    float64

	Needed      float64 // pairs of a change and a proxy that needs it
	Undelivered float64 // pairs not acknowledged within Settle
	Changes     int
	Contexts    float64 // push contexts made by all replicas
	Turns       float64 // of proxies that needed something
	Skipped     float64 // of proxies that needed nothing
	Pushes      [Types]float64
	Bytes       [Types]float64
	// Pushes by type that sent the whole type (Whole) and that istiod regenerated (Anew). Own is
	// the number of changes with their own part in the other pushes.
	Whole, Anew, Own [Types]float64
	// Waited is the time from a push's beginning until the end of a turn that needed it, summed
	// over turns, as in pilot_proxy_convergence_time.
	Waited float64
	// CPU is istiod's CPU time over the whole simulation, without idle use.
	CPU float64
	// Seconds is the time of the last acknowledgement, or the horizon.
	Seconds float64
	// Stale is how long proxies lacked anything they needed, summed over proxies.
	Stale float64
	// Overlapped is the share of pushes that began while a proxy still waited for an earlier one.
	Overlapped float64
	// Drained reports whether, at some time in the second half of the horizon, every replica's
	// queue was empty and no turn was running: istiod keeps up.
	Drained bool
	// Longest is the longest queue of a replica, in proxies.
	Longest float64
}

// AllBytes returns the bytes of all types together.
func (r *Result) AllBytes() float64 { return sum(r.Bytes) }

// AllPushes returns the pushes of all types together, as istiod counts them.
func (r *Result) AllPushes() float64 { return sum(r.Pushes) }

func sum(by [Types]float64) float64 {
	total := 0.0
	for _, v := range by {
		total += v
	}
	return total
}

// add adds the results of one of several identical replicas.
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
