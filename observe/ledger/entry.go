package ledger

import (
	"fmt"

	"github.com/meshtrial/meshtrial/record"
)

// IDPrefix begins the ids of our own requests. They are not 36 characters
// long, so Envoy does not take them for UUIDs and leaves them as they are.
const IDPrefix = "mm-"

// Outcomes of a request at the client. Failures have the names that package
// load gives them.
const (
	OutcomeOK         = "ok"
	OutcomeUnfinished = "unfinished" // still out, or never sent, when the load ended
	OutcomeConnect    = "connect"
	OutcomeTimeout    = "timeout"
	OutcomeReset      = "reset"
	OutcomeEOF        = "eof"
	OutcomeProtocol   = "protocol"
	OutcomeStatus     = "status"
	OutcomeTLS        = "tls"
	OutcomeOther      = "other"
)

// How a request ended at a worker. Other words are taken as failures of the
// worker and shown as they are.
const (
	EndAnswered = "answered" // the whole answer was written, whatever its status
	EndGone     = "gone"     // whoever asked went away before the answer
)

// WorkerEnded returns how a request ended from what a worker's log says: the
// status it answered with (499: whoever asked went away) and the planned
// failure it made, if any.
func WorkerEnded(status int, failure string) string {
	switch {
	case failure != "":
		return failure
	case status == 499:
		return EndGone
	}
	return EndAnswered
}

// ClientEntry is what the generator wrote about a request. Times are
// nanoseconds; all entries of a book use one clock, whatever its zero.
type ClientEntry struct {
	ID         string `json:"id"`
	IntendedNS int64  `json:"intended_ns"`
	SentNS     int64  `json:"sent_ns"` // Never: it was not sent
	DoneNS     int64  `json:"done_ns"` // answered, failed or given up; Never: still out at the end
	Outcome    string `json:"outcome"`
	Status     int    `json:"status,omitempty"` // HTTP status or gRPC code of a complete answer, otherwise 0
}

// Side says for whom a proxy carried a request.
type Side uint8

const (
	SideUnknown Side = iota
	SideClient       // outbound: for the program in its own pod
	SideServer       // inbound: to the program in its own pod
)

var sides = [...]string{"unknown", "client", "server"}

func (s Side) String() string { return sides[min(int(s), len(sides)-1)] }

// MarshalText writes the side as a word.
func (s Side) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads it.
func (s *Side) UnmarshalText(text []byte) error {
	for i, word := range sides {
		if word == string(text) {
			*s = Side(i)
			return nil
		}
	}
	return fmt.Errorf("%q is no side of a proxy", text)
}

// ProxyEntry is a line of a proxy's access log, or of its log of attempts.
type ProxyEntry struct {
	// One says that it is about one attempt at an upstream, and not about the
	// request with all its attempts: StartNS, Status, Flags and Host are the
	// attempt's own, and Attempt its number from 1.
	One bool `json:"one,omitempty"`

	ID      string `json:"id"`
	Side    Side   `json:"side"`
	Service string `json:"service"` // of the proxy's pod
	Pod     string `json:"pod"`
	To      string `json:"to,omitempty"` // SideClient: the service called, "" if the proxy knew none

	StartNS    int64  `json:"start_ns"`
	DurationNS int64  `json:"duration_ns"`
	Status     int    `json:"status"`              // 0: no answer was begun
	GRPC       int    `json:"grpc"`                // gRPC status, -1 if there is none
	Flags      string `json:"flags,omitempty"`     // response flags as Envoy writes them: "URX,UF", "" for none
	Details    string `json:"details,omitempty"`   // response code details
	Transport  string `json:"transport,omitempty"` // why the transport to the upstream failed
	Closed     string `json:"closed,omitempty"`    // connection termination details
	Host       string `json:"host,omitempty"`      // address of the last attempt, "" if it went nowhere
	Attempts   int    `json:"attempts"`            // attempts upstream, the last one included even if it found no host
	Attempt    int    `json:"attempt,omitempty"`   // x-envoy-attempt-count of the request, 0 if absent
}

// WorkerEntry is what a worker wrote about a request.
type WorkerEntry struct {
	ID      string `json:"id"`
	Service string `json:"service"`
	Pod     string `json:"pod"`
	StartNS int64  `json:"start_ns"`
	EndNS   int64  `json:"end_ns"`
	Status  int    `json:"status"` // of its answer, 0 if there was none
	Ended   string `json:"ended"`
}

// answered says that the client got a whole answer, good or bad.
func (c *ClientEntry) answered() bool {
	return c.Outcome == OutcomeOK || c.Outcome == OutcomeStatus
}

// sent says that bytes of the request left the client.
func (c *ClientEntry) sent() bool { return c.SentNS != record.Never }

// viaUpstream are the details of an answer that the upstream gave.
const viaUpstream = "via_upstream"

// failed says that the line tells of a failure. An answer counts as good as
// package load sees it: HTTP 2xx, and gRPC status 0 if there is one.
func (p *ProxyEntry) failed() bool {
	return p.Status < 200 || p.Status > 299 || p.GRPC > 0 || p.Details != viaUpstream && causeOf(p.Flags).Hop != HopNone
}

// stayed says that the last attempt did not leave the proxy: it had no host to
// go to, or the proxy refused to send it, which it does with a host chosen or
// not.
func (p *ProxyEntry) stayed() bool {
	if p.Host == "" {
		return true
	}
	if p.Details == viaUpstream {
		return false
	}
	switch causeOf(p.Flags).Short {
	case "NR", "NC", "UH", "UO", "DO", "UDO":
		return true
	}
	return false
}

// left is how many attempts of the line left the proxy. Envoy counts one even
// if it then stayed.
func (p *ProxyEntry) left() int {
	if p.stayed() {
		return max(p.Attempts-1, 0)
	}
	return max(p.Attempts, 1)
}

// why is what one attempt's line says about its failure, "" for none.
func (p *ProxyEntry) why() string {
	switch {
	case p.Flags != "" && p.Flags != "-":
		return p.Flags
	case p.Status == 0:
		return LostNoAnswer
	case p.failed():
		return fmt.Sprintf("status %d", p.Status)
	}
	return ""
}

// passed says that the answer came from the upstream, not from the proxy.
// When the client hangs up while it reads, the details say so in place of
// via_upstream, so it goes by the flags: an answer of the proxy's own has one.
func (p *ProxyEntry) passed() bool {
	return p.Host != "" && p.Status > 0 && (p.Details == viaUpstream || causeOf(p.Flags).Hop == HopNone || p.hangup())
}

// hangup says that the one who asked went away, and nothing else is said.
func (p *ProxyEntry) hangup() bool {
	c := causeOf(p.Flags)
	return c.Short == "DC" || c.Short == "DR"
}

func (w *WorkerEntry) failed() bool {
	return w.Ended != EndAnswered || w.Status > 299 || (w.Status > 0 && w.Status < 200)
}
