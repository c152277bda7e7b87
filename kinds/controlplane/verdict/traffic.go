package verdict

// traffic checks the accounts of a trial's requests.
func (r *ruling) traffic() {
	x, wait := r.trial.Control.Traffic, r.seen.TrafficWaitUS
	if x == nil {
		return
	}
	sum := x.Completed + x.FailedTotal() + x.Unfinished
	r.Check("traffic-account", x.Requests == sum && x.Requests > 0, "%d requests = %d completed + %d failed + %d unfinished", x.Requests, x.Completed, x.FailedTotal(), x.Unfinished)
	logged := x.Attempts - x.Unconnected
	slack := int64(max(r.limits.Of(trafficLogLeast), r.limits.Of(trafficLog)*float64(x.Counted)))
	r.Check("traffic-log", logged-x.GivenUp-x.Counted <= slack && x.Counted-logged <= slack,
		"the caller's sidecar logged %d attempts, %d of them without a connection and %d given up, some before they had one; its counter has %d of the others", x.Attempts, x.Unconnected, x.GivenUp, x.Counted)
	if x.Residual != 0 {
		r.Warn(noteFailuresApart, sum-x.Completed, sum-x.Completed-x.Residual)
	}
	if wait > r.limits.Of(trafficWait) {
		r.Warn(noteConnectionWait, wait/1e3, x.Connections)
	}
}
