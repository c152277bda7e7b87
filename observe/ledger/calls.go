package ledger

import "fmt"

// Calls between services whose proxies write nothing of requests ([Options.Carried]): of
// these the workers at both ends tell.

// The statuses by which a worker says that a call of its own failed, and that it waited for
// one in vain. Of a worker a waypoint says the latter, to gRPC's clients as DEADLINE_EXCEEDED.
const (
	callFailed = 502
	callLate   = 504
	grpcLate   = 4
)

// callee is what a called worker says of a call that failed, the more telling the lower.
type callee int

const (
	calleeFailed   callee = iota // it failed, or a call of its own did
	calleeLeft                   // it was still at work when its caller went away
	calleeSlow                   // it answered, after most of the time that its caller had left
	calleeUnheard                // it wrote nothing, and is always called
	calleeAnswered               // it answered in good time
	calleeUncalled               // it wrote nothing, and may not have been called
	calleeNone
)

// needed is how many requests to a service had to be answered before its callers' workers
// gave the good answers that they did.
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

// called follows what a worker did not fail of itself into its calls: to a worker that
// failed, or was waited for in vain. A call that the worker says failed, with nothing said
// against the called one, was lost between the two. Where the worker's own caller went away
// instead, it may have been at work itself, and there is no more to tell.
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

// callee says what became of a call at the called service's worker, for a caller that
// waited in vain or was told.
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
	case waited && w.EndNS-w.StartNS > (caller.EndNS-w.StartNS)/2: // clocks differ by less
		return calleeSlow
	}
	return calleeAnswered
}
