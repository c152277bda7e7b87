package ledger

import (
	"cmp"
	"fmt"
	"slices"
)

// Class is the outcome of a request. Every client request has exactly one.
type Class string

const (
	ClassOK           Class = "ok"           // answered at the first attempt everywhere
	ClassRetried      Class = "retried"      // answered after failures that retries hid
	ClassFailed       Class = "failed"       // failed, and all stations agree
	ClassUnfinished   Class = "unfinished"   // not sent, or still pending, when the load ended
	ClassUnreconciled Class = "unreconciled" // something is missing; it may or may not have been answered
	ClassOrphan       Class = "orphan"       // not logged by the client
)

// Request is everything that was logged about one request.
type Request struct {
	ID      string
	Client  *ClientEntry  // nil: not logged
	Proxies []ProxyEntry  // of whole requests, by start
	Tries   []ProxyEntry  // of single attempts, by start; empty if proxies keep no attempt log
	Workers []WorkerEntry // by start
	// Duplicates is the number of client entries in addition to Client.
	Duplicates int

	Class Class
	// Lacks describes, in words, what does not balance; empty if reconciled.
	Lacks []string
	// Fault is where the request failed; nil if the client received a successful
	// response.
	Fault *Fault
	// Attempts is the number of attempts that left the client's proxies, or the
	// client if it has none. Hidden is the number of attempts of all proxies whose
	// failure only the proxy noticed.
	Attempts, Hidden int
	// Lost is the number of attempts, of all proxies, that never arrived.
	Lost int
	// Unwritten is the number of attempts that a worker logged but its proxy did
	// not, if proxies omit lines (Options.InboundOnly).
	Unwritten int

	legs []leg
}

// Fault is where and how a request failed.
type Fault struct {
	Hop     Hop    `json:"hop"`
	Service string `json:"service,omitempty"` // whose program or proxy it is; for a request lost in the network, the called service
	Pod     string `json:"pod,omitempty"`     // of that service, if a line has it
	Host    string `json:"host,omitempty"`    // address of the last attempt before it
	// Flag is the short name of the response flag that indicates the cause; "" if
	// the failure was passed on like any other response.
	Flag string `json:"flag,omitempty"`
	// Seen has the flags on the first proxy's line.
	Seen   string `json:"seen,omitempty"`
	Detail string `json:"detail,omitempty"` // in Envoy's, the worker's or our words
}

// leg is the balance between two stations for one request.
type leg struct {
	key     legKey
	left    int // attempts that left the first station
	arrived int
	must    int      // attempts in left that the other side answered
	lost    []string // causes of attempts that did not arrive, most certain first
	open    bool     // other callers exist that write no log
}

type legKey struct {
	kind    legKind
	service string
}

type legKind uint8

const (
	legClient  legKind = iota // client to its proxy
	legService                // the callers to the service's first station
	legWorker                 // the service's proxy to its worker
)

// missing returns the number of attempts without a line at the second station,
// surplus the number of lines there without an attempt.
func (l *leg) missing() int { return max(0, l.must-l.arrived, l.left-l.arrived-len(l.lost)) }

func (l *leg) surplus() int {
	if l.open {
		return 0
	}
	return max(0, l.arrived-l.left)
}

// gone returns the causes of attempts that did not arrive and did not have to.
func (l *leg) gone() []string {
	n := l.left - l.arrived - l.missing()
	return l.lost[:max(0, min(n, len(l.lost)))]
}

// Causes of lost attempts, in addition to response flags and the client's kinds of
// failure.
const (
	LostRetried    = "retried"    // an attempt before the last, without its own line about the failure
	LostNoAnswer   = "no answer"  // the last attempt, without a more specific flag
	LostUnfinished = "unfinished" // the load ended first
)

// judge derives the remaining fields from the entries.
func (b *Book) judge(r *Request) {
	if b.options.ClientProxy {
		b.clientLeg(r)
	}
	for service, station := range b.options.Services {
		b.serviceLegs(r, service, station)
	}
	for i := range r.legs {
		l := &r.legs[i]
		if n := l.missing(); n > 0 {
			r.Lacks = append(r.Lacks, fmt.Sprintf("%s: %d of %d have no line", b.legName(l.key), n, l.left))
		}
		if n := l.surplus(); n > 0 {
			r.Lacks = append(r.Lacks, fmt.Sprintf("%s: %d lines more than the %d sent", b.legName(l.key), n, l.left))
		}
		r.Lost += len(l.gone())
	}
	if len(r.Lacks) > 1 {
		slices.Sort(r.Lacks) // services come in random order
	}
	for i := range r.Proxies {
		p := &r.Proxies[i]
		if p.Side == SideClient && p.Service == b.options.Client {
			r.Attempts += p.left()
		}
		r.Hidden += max(p.Attempts-1, 0)
	}
	if r.Client == nil {
		r.Class = ClassOrphan
		r.Lacks = append(r.Lacks, "the client wrote nothing about it")
		return
	}
	if !b.options.ClientProxy && r.Client.sent() {
		r.Attempts = 1
	}
	if b.options.InboundOnly {
		arrived := 0
		for i := range r.Proxies {
			if p := &r.Proxies[i]; p.Side == SideServer && p.Service == b.options.Entry {
				arrived++
			}
		}
		r.Attempts = max(r.Attempts, arrived)
		r.Hidden += max(arrived-1, 0)
	}
	if r.Client.Outcome != OutcomeOK {
		r.Fault = new(b.blame(r))
	}
	switch {
	case len(r.Lacks) > 0 || r.Duplicates > 0:
		r.Class = ClassUnreconciled
		if r.Duplicates > 0 {
			r.Lacks = append(r.Lacks, fmt.Sprintf("the client wrote %d entries with this id", r.Duplicates+1))
		}
	case r.Client.Outcome == OutcomeUnfinished:
		r.Class = ClassUnfinished
	case r.Client.Outcome != OutcomeOK:
		r.Class = ClassFailed
	case r.Hidden > 0:
		r.Class = ClassRetried
	default:
		r.Class = ClassOK
	}
}

// clientLeg balances the client's requests against its proxy's lines. A client
// without a proxy is an ordinary caller of the entry service.
func (b *Book) clientLeg(r *Request) {
	l := leg{key: legKey{legClient, b.options.Client}}
	for i := range r.Proxies {
		if p := &r.Proxies[i]; p.Side != SideServer && p.Service == b.options.Client {
			l.arrived++
		}
	}
	if r.Client != nil {
		l.left, l.must, l.lost = r.Client.attempts()
		// Its own proxy is in the same pod, so bytes sent are not lost on the way.
		if r.Client.Outcome != OutcomeUnfinished {
			l.must, l.lost = l.left, nil
		}
	}
	r.legs = appendLeg(r.legs, l)
}

// attempts returns what the client sent, how much of it was answered, and the
// causes for the rest.
func (c *ClientEntry) attempts() (left, must int, lost []string) {
	switch {
	case !c.left():
		return 0, 0, nil
	case c.answered():
		return 1, 1, nil
	case c.Outcome == OutcomeUnfinished:
		return 1, 0, []string{LostUnfinished}
	}
	return 1, 0, []string{c.Outcome}
}

// attempts adds what a proxy sent upstream to a leg.
func (l *leg) attempts(p *ProxyEntry) {
	left := p.left()
	l.left += left
	if left == 0 {
		return
	}
	before := left - 1
	switch {
	case p.stayed():
		before = left
	case p.Details == proxyOrWorker:
		l.lost = append(l.lost, fmt.Sprintf("status %d", p.Status))
	case p.passed():
		l.must++
	default:
		l.lost = append(l.lost, cmp.Or(causeOf(p.Flags).Short, LostNoAnswer))
	}
	for range before {
		l.lost = append(l.lost, LostRetried)
	}
}

func (b *Book) serviceLegs(r *Request, service string, station Station) {
	in := leg{key: legKey{legService, service}}
	on := leg{key: legKey{legWorker, service}}
	for i := range r.Proxies {
		switch p := &r.Proxies[i]; {
		case station.Gateway && p.Side != SideServer && p.Service == service:
			in.arrived++
		case p.Side == SideClient && p.To == service:
			in.attempts(p)
		case p.Side == SideServer && p.Service == service:
			in.arrived++
			on.attempts(p)
		}
	}
	workers := 0
	for i := range r.Workers {
		if r.Workers[i].Service == service {
			workers++
		}
	}
	in.tries(r, func(p *ProxyEntry) bool { return p.Side == SideClient && p.To == service })
	if service == b.options.Entry && !b.options.ClientProxy && r.Client != nil {
		left, must, lost := r.Client.attempts()
		if (b.options.InboundOnly || b.options.Answering) && r.Client.Outcome == OutcomeStatus { // a proxy may have sent this status
			must, lost = 0, []string{fmt.Sprintf("status %d", r.Client.Status)}
		}
		in.left, in.must, in.lost = in.left+left, in.must+must, append(in.lost, lost...)
	}
	if b.options.Carried {
		n := b.needed(r, service, station)
		in.left, in.must = in.left+n, in.must+n
	}
	if n := workers - in.arrived; b.options.InboundOnly && station.Sidecar && n > 0 {
		in.arrived += n
		on.left += n
		r.Unwritten += n
	}
	in.open = b.options.InboundOnly || b.options.Answering
	for _, caller := range station.CalledBy {
		in.open = in.open || !b.options.Services[caller].Sidecar
	}
	switch {
	case station.Gateway:
	case station.Sidecar:
		on.arrived = workers
		on.tries(r, func(p *ProxyEntry) bool { return p.Side == SideServer && p.Service == service })
		on.sortLost()
		r.legs = appendLeg(r.legs, on)
	default:
		in.arrived = workers
	}
	in.sortLost()
	r.legs = appendLeg(r.legs, in)
}

// tries uses the individual attempts instead, if a line was logged for each.
func (l *leg) tries(r *Request, wanted func(*ProxyEntry) bool) {
	left, must, lost := 0, 0, []string(nil)
	for i := range r.Tries {
		p := &r.Tries[i]
		if !wanted(p) || p.stayed() {
			continue
		}
		left++
		cause := causeOf(p.Flags).Short
		switch {
		case p.Status > 0 && cause == "":
			must++
		case cause != "":
			lost = append(lost, cause)
		default: // given up; the request's line may say why
			lost = append(lost, l.giveUp())
		}
	}
	if left == l.left && left > 0 {
		l.must, l.lost = must, lost
	}
}

// giveUp returns the cause for giving up the last attempt.
func (l *leg) giveUp() string {
	for _, cause := range l.lost {
		if f, ok := FlagByName(cause); ok && f.Hop == hopWait {
			return cause
		}
	}
	return LostNoAnswer
}

func appendLeg(legs []leg, l leg) []leg {
	if l.left == 0 && l.arrived == 0 {
		return legs
	}
	return append(legs, l)
}

// sortLost sorts first the causes that prove that an attempt did not arrive.
func (l *leg) sortLost() {
	if len(l.lost) < 2 {
		return
	}
	sure := func(cause string) int {
		switch cause {
		case "UF":
			return 0
		case "UC", "UR", "LR":
			return 1
		case LostRetried:
			return 2
		}
		return 3
	}
	slices.SortStableFunc(l.lost, func(x, y string) int { return cmp.Compare(sure(x), sure(y)) })
}

func (b *Book) legName(k legKey) string {
	switch k.kind {
	case legClient:
		return "requests of the client at its proxy"
	case legWorker:
		return fmt.Sprintf("attempts of the proxy of %s at its worker", k.service)
	}
	if b.options.Services[k.service].Gateway {
		return fmt.Sprintf("requests to gateway %s", k.service)
	}
	if b.options.Services[k.service].Sidecar {
		return fmt.Sprintf("attempts to %s at its proxy", k.service)
	}
	return fmt.Sprintf("attempts to %s at its worker", k.service)
}
