package ledger

import (
	"cmp"
	"fmt"
)

// maxCalls limits how many services a failure is followed through.
const maxCalls = 64

// blame finds where a client's request failed. It follows the log lines from the client
// for as long as the next station shows the same failure.
func (b *Book) blame(r *Request) Fault {
	c := r.Client
	t := tracer{b, r, maxCalls}
	if !b.options.ClientProxy {
		return t.direct(c)
	}
	line := lastOf(r.Proxies, func(p *ProxyEntry) bool { return p.Side != SideServer && p.Service == b.options.Client })
	switch {
	case !c.left():
		return Fault{Hop: HopClient, Service: b.options.Client, Detail: c.reason()}
	case line == nil:
		return Fault{Hop: HopClientProxy, Service: b.options.Client, Detail: c.reason() + ", and no line of the client's proxy"}
	}
	fault := t.sent(line)
	fault.Seen = line.Flags
	return fault
}

// reason describes how the request ended at the client.
func (c *ClientEntry) reason() string {
	switch {
	case !c.sent() && c.Outcome == OutcomeUnfinished:
		return "not sent before the load ended"
	case c.Outcome == OutcomeUnfinished:
		return "no answer before the load ended"
	}
	return c.Outcome
}

// tracer follows one request. steps prevents infinite loops in contradictory logs.
type tracer struct {
	book    *Book
	request *Request
	steps   int
}

// lastOf returns the last wanted entry, or the last failed one if any failed.
func lastOf[E any, P interface {
	*E
	failed() bool
}](entries []E, wanted func(P) bool) P {
	var last P
	for i := range entries {
		e := P(&entries[i])
		if wanted(e) && (last == nil || e.failed() || !last.failed()) {
			last = e
		}
	}
	return last
}

// direct follows a request of a client without a proxy.
func (t *tracer) direct(c *ClientEntry) Fault {
	switch {
	case !c.sent() && c.Outcome == OutcomeUnfinished:
		return Fault{Hop: HopClient, Service: t.book.options.Client, Detail: c.reason()}
	case !c.left():
		return Fault{Hop: HopNetwork, Service: t.book.options.Entry, Detail: c.reason()}
	}
	if t.book.options.Carried && t.brokenOff(c) {
		return Fault{Hop: HopNetwork, Service: t.book.options.Entry, Detail: c.reason() + ", of a request that arrived"}
	}
	if fault, ok := t.arrived(t.book.options.Entry, true); ok {
		return fault
	}
	if t.book.options.InboundOnly && c.Outcome == OutcomeStatus {
		return Fault{Hop: HopClientProxy, Service: t.book.options.Client, Detail: fmt.Sprintf("status %d, and nothing arrived", c.Status)}
	}
	return Fault{Hop: HopNetwork, Service: t.book.options.Entry, Detail: c.reason()}
}

// brokenOff reports whether a worker did not cause the client's failure. Either it
// answered successfully and in time, or it saw the connection end, as the client or the
// waypoint did; the waypoint then answered in its place for a reason other than a timeout.
func (t *tracer) brokenOff(c *ClientEntry) bool {
	entry := lastOf(t.request.Workers, func(w *WorkerEntry) bool { return w.Service == t.book.options.Entry })
	switch {
	case entry == nil:
		return false
	case entry.Ended == EndGone && c.Outcome == OutcomeStatus:
		return t.book.options.Answering && c.Status != callLate && c.Status != grpcLate
	case entry.Ended == EndGone:
		return c.Outcome == OutcomeReset || c.Outcome == OutcomeEOF
	case c.Outcome == OutcomeTimeout && entry.EndNS-c.SentNS > (c.DoneNS-c.SentNS)/2:
		return false // it was slow; clock differences are smaller
	}
	return !entry.failed()
}

// arrived follows a request into a service: to its proxy's line, or to its worker's if it
// has no proxy. Entries without a failure explain one only if the caller waited in vain.
func (t *tracer) arrived(service string, waited bool) (Fault, bool) {
	if t.book.options.Services[service].Gateway {
		line := lastOf(t.request.Proxies, func(p *ProxyEntry) bool { return p.Side != SideServer && p.Service == service })
		if line == nil {
			return Fault{}, false
		}
		return t.sent(line), true
	}
	if t.book.options.Services[service].Sidecar {
		line := lastOf(t.request.Proxies, func(p *ProxyEntry) bool { return p.Side == SideServer && p.Service == service })
		if line == nil || !line.failed() && !waited {
			return Fault{}, false
		}
		return t.received(line), true
	}
	return t.worker(service, "", waited)
}

// sent follows a line of the caller's proxy.
func (t *tracer) sent(line *ProxyEntry) Fault {
	t.steps--
	cause := causeOf(line.Flags)
	here := Fault{Hop: HopClientProxy, Service: line.Service, Pod: line.Pod, Host: line.Host, Flag: cause.Short, Detail: line.detail()}
	if t.book.options.Services[line.Service].Gateway {
		here.Hop = HopGateway
	}
	lost := here
	lost.Hop, lost.Service, lost.Pod = HopNetwork, cmp.Or(line.To, line.Service), ""
	switch {
	case t.steps <= 0:
		return here
	case line.passed() && !line.hangup():
		// A response like any other. If it contains no failure, the caller rejected it or
		// did not receive all of it.
		if fault, ok := t.arrived(line.To, false); ok {
			return fault
		}
		if !line.failed() {
			if here.Hop != HopGateway || !t.request.Client.cutOff() {
				here.Hop = HopClient // a successful response that the client did not receive in time or did not accept
			}
			return here
		}
		here.Hop, here.Service, here.Pod = HopServerProxy, line.To, ""
		if !t.book.options.Services[line.To].Sidecar {
			here.Hop = HopWorker
		}
		return here
	case line.Host == "" || cause.Hop == hopHere || cause.Hop == HopNone:
		return here
	case cause.Short == "UF":
		return lost
	}
	if fault, ok := t.arrived(line.To, cause.Hop == hopWait); ok {
		fault.Flag = tell(fault.Flag, cause.Short)
		fault.Host = cmp.Or(fault.Host, line.Host)
		return fault
	}
	return lost
}

// received follows a line of the called service's proxy.
func (t *tracer) received(line *ProxyEntry) Fault {
	cause := causeOf(line.Flags)
	here := Fault{Hop: HopServerProxy, Service: line.Service, Pod: line.Pod, Host: line.Host, Flag: cause.Short, Detail: line.detail()}
	own := here
	own.Hop = HopWorker
	switch {
	case line.Details == proxyOrWorker, line.Details == givenUp:
		if fault, ok := t.worker(line.Service, line.Pod, line.Details == givenUp); ok {
			return fault
		}
		here.Detail = fmt.Sprintf("status %d, and nothing of the worker", line.Status)
		return here
	case line.passed() && !line.hangup():
		if fault, ok := t.worker(line.Service, line.Pod, false); ok {
			return fault
		}
		if !line.failed() {
			return here
		}
		return own
	case line.Host == "" || cause.Hop == hopHere || cause.Hop == HopNone:
		return here
	case cause.Short == "UF":
		return own // nothing is listening
	}
	if fault, ok := t.worker(line.Service, line.Pod, cause.Hop == hopWait); ok {
		fault.Flag = tell(fault.Flag, cause.Short)
		return fault
	}
	return own
}

// tell chooses between the flag of the next station and the flag here. If the caller hung
// up, its own flag says why.
func tell(further, here string) string {
	if further == "DC" || further == "DR" {
		return cmp.Or(here, further)
	}
	return cmp.Or(further, here)
}

// worker follows a request to the worker, and into the calls it made. An entry without a
// failure is an explanation only if the caller waited.
func (t *tracer) worker(service, pod string, waited bool) (Fault, bool) {
	of := func(p string) bool { return pod == "" || p == "" || p == pod }
	entry := lastOf(t.request.Workers, func(w *WorkerEntry) bool { return w.Service == service && of(w.Pod) })
	if entry != nil && !entry.failed() && !waited {
		return Fault{}, false
	}
	if entry == nil || entry.Ended == EndAnswered || entry.Ended == EndGone { // not by a failure of its own
		// If one of several calls fails, the others are canceled.
		call := lastOf(t.request.Proxies, func(p *ProxyEntry) bool {
			return p.Side == SideClient && p.Service == service && of(p.Pod) && !(p.failed() && p.hangup())
		})
		if call == nil || !call.failed() {
			call = lastOf(t.request.Proxies, func(p *ProxyEntry) bool { return p.Side == SideClient && p.Service == service && of(p.Pod) })
		}
		if call != nil && call.failed() && t.steps > 0 {
			return t.sent(call), true
		}
		if t.book.options.Carried && entry != nil {
			if fault, ok := t.called(entry); ok {
				return fault, true
			}
		}
	}
	if entry == nil {
		return Fault{}, false
	}
	return Fault{Hop: HopWorker, Service: service, Pod: entry.Pod, Detail: entry.Ended}, true
}

// detail returns what the line says about the cause.
func (p *ProxyEntry) detail() string { return cmp.Or(p.Transport, p.Closed, p.Details) }
