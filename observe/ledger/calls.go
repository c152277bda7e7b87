package ledger

import "fmt"

// Calls between services whose proxies log no requests ([Options.Carried]) are reconstructed
// from the workers at both ends.

// Statuses with which a worker reports that its own call failed, or that it waited for one in
// vain. A waypoint reports the latter about a worker, as DEADLINE_EXCEEDED to gRPC clients.
const (
	callFailed = 502
	callLate   = 504
	grpcLate   = 4
)

// callee is the state of a failed call at the called worker; lower values are more
// significant.
type callee int

const (
	calleeFailed   callee = iota // it failed, or a call of its own did
	calleeLeft                   // it was still working when its caller went away
	calleeSlow                   // it answered after more than half of the caller's remaining time
	calleeUnheard                // it logged nothing, but is always called
	calleeAnswered               // it answered in time
	calleeUncalled               // it logged nothing, and may not have been called
	calleeNone
)

// needed returns how many requests to a service must have succeeded for its callers' workers
// to give the successful responses they did.
func (b *Book) needed(r *Request, service string, station Station) int {
	n := 0
	for _, caller := range station.CalledBy {
		least := 0
		for _, call := range b.options.Services[caller].Calls {
			if call.To == service {
				least += call.Least
			}
		}
		for i := range r.Workers {
			if w := &r.Workers[i]; w.Service == caller && !w.failed() {
				n += least
			}
		}
	}
	return n
}

// called follows a failure that a worker did not cause itself into the worker's calls: to a
// worker that failed or was waited for in vain. If the worker reports a failed call and the
// called worker shows no problem, the call was lost between the two. If instead the worker's
// own caller went away, the worker itself may have been busy, and nothing more is known.
func (t *tracer) called(entry *WorkerEntry) (Fault, bool) {
	waited := entry.Ended == EndGone || entry.Status == callLate
	if t.steps--; t.steps <= 0 || !waited && entry.Status != callFailed {
		return Fault{}, false
	}
	to, worst := "", calleeNone
	for _, call := range t.book.options.Services[entry.Service].Calls {
		if state := t.callee(call, entry, waited); state < worst {
			to, worst = call.To, state
		}
	}
	switch {
	case worst == calleeFailed, waited && worst <= calleeSlow:
		return t.worker(to, "", true)
	case worst == calleeNone, entry.Ended == EndGone:
		return Fault{}, false
	}
	return Fault{Hop: HopNetwork, Service: to, Detail: fmt.Sprintf("the worker of %s answered %d", entry.Service, entry.Status)}, true
}

// callee returns the state of a call at the called service's worker, for a caller that waited
// in vain or received a failure.
func (t *tracer) callee(call Call, caller *WorkerEntry, waited bool) callee {
	w := lastOf(t.request.Workers, func(w *WorkerEntry) bool { return w.Service == call.To })
	switch {
	case w == nil && call.Least > 0:
		return calleeUnheard
	case w == nil:
		return calleeUncalled
	case w.Ended == EndGone:
		return calleeLeft
	case w.failed():
		return calleeFailed
	case waited && w.EndNS-w.StartNS > (caller.EndNS-w.StartNS)/2: // clock differences are smaller
		return calleeSlow
	}
	return calleeAnswered
}
