package ledger

import (
	"fmt"

	"github.com/meshtrial/meshtrial/record"
)

// IDPrefix is the prefix of the IDs of our own requests. They are not 36
// characters long, so Envoy does not treat them as UUIDs and leaves them
// unchanged.
const IDPrefix = "mm-"

// Outcomes of a request at the client. Failures have the names used by package
// load.
const (
	OutcomeOK         = "ok"
	OutcomeUnfinished = "unfinished" // pending or never sent when the load ended
	OutcomeConnect    = "connect"
	OutcomeTimeout    = "timeout"
	OutcomeReset      = "reset"
	OutcomeEOF        = "eof"
	OutcomeProtocol   = "protocol"
	OutcomeStatus     = "status"
	OutcomeTLS        = "tls"
	OutcomeStream     = "stream" // its stream was not open
	OutcomeOther      = "other"
)

// Outcomes of a request at a worker. Other values count as failures of the
// worker and are shown unchanged.
const (
	EndAnswered = "answered" // the complete response was written, whatever its status
	EndGone     = "gone"     // the caller went away before the response
)

// WorkerEnded returns the outcome of a request from a worker's log: the status
// of the response (499: the caller went away) and the injected failure, if any.
func WorkerEnded(status int, failure string) string {
	switch {
	case failure != "":
		return failure
	case status == 499:
		return EndGone
	}
	return EndAnswered
}

// ClientEntry is the generator's entry about a request. Times are in
// nanoseconds. All entries of a book use one clock with an arbitrary zero.
type ClientEntry struct {
	ID         string `json:"id"`
	IntendedNS int64  `json:"intended_ns"`
	SentNS     int64  `json:"sent_ns"` // Never: not sent
	DoneNS     int64  `json:"done_ns"` // answered, failed or given up; Never: still pending at the end
	Outcome    string `json:"outcome"`
	Status     int    `json:"status,omitempty"` // HTTP status or gRPC code of a complete response, otherwise 0
}

// Side says on whose behalf a proxy forwarded a request.
type Side uint8

const (
	SideUnknown Side = iota
	SideClient       // outbound: for the program in its own pod
	SideServer       // inbound: to the program in its own pod
)

var sides = [...]string{"unknown", "client", "server"}

func (s Side) String() string { return sides[min(int(s), len(sides)-1)] }

// MarshalText formats the side as a word.
func (s Side) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText parses it.
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
	// One means that the line is about one attempt at an upstream rather than
	// the request with all its attempts: StartNS, Status, Flags and Host are
	// those of the attempt, and Attempt is its number from 1.
	One bool `json:"one,omitempty"`

	ID      string `json:"id"`
	Side    Side   `json:"side"`
	Service string `json:"service"` // of the proxy's pod
	Pod     string `json:"pod"`
	To      string `json:"to,omitempty"` // SideClient: the called service, "" if the proxy knew none

	StartNS    int64  `json:"start_ns"`
	DurationNS int64  `json:"duration_ns"`
	Status     int    `json:"status"`              // 0: no response was started
	GRPC       int    `json:"grpc"`                // gRPC status, -1 if there is none
	Flags      string `json:"flags,omitempty"`     // response flags as Envoy writes them: "URX,UF", "" for none
	Details    string `json:"details,omitempty"`   // response code details
	Transport  string `json:"transport,omitempty"` // why the transport to the upstream failed
	Closed     string `json:"closed,omitempty"`    // connection termination details
	Host       string `json:"host,omitempty"`      // address of the last attempt, "" if there was none
	Attempts   int    `json:"attempts"`            // upstream attempts, including the last one even if it found no host
	Attempt    int    `json:"attempt,omitempty"`   // x-envoy-attempt-count of the request, 0 if absent
}

// WorkerEntry is a worker's entry about a request.
type WorkerEntry struct {
	ID      string `json:"id"`
	Service string `json:"service"`
	Pod     string `json:"pod"`
	StartNS int64  `json:"start_ns"`
	EndNS   int64  `json:"end_ns"`
	Status  int    `json:"status"` // of its response, 0 if there was none
	Ended   string `json:"ended"`
}

// answered reports whether the client received a complete response, successful
// or not.
func (c *ClientEntry) answered() bool {
	return c.Outcome == OutcomeOK || c.Outcome == OutcomeStatus
}

// cutOff reports whether the client's connection ended before the response.
func (c *ClientEntry) cutOff() bool { return c.Outcome == OutcomeReset || c.Outcome == OutcomeEOF }

// sent reports whether the client began to send the request, or to connect for it.
func (c *ClientEntry) sent() bool { return c.SentNS != record.Never }

// left reports whether bytes of the request may have left the client.
func (c *ClientEntry) left() bool {
	return c.sent() && c.Outcome != OutcomeConnect && c.Outcome != OutcomeTLS && c.Outcome != OutcomeStream
}

// viaUpstream is the response code detail of a response from the upstream.
const viaUpstream = "via_upstream"

// failed reports whether the line shows a failure. A response is successful by
// the rules of package load: HTTP 2xx, and gRPC status 0 if there is one.
func (p *ProxyEntry) failed() bool {
	return p.Status < 200 || p.Status > 299 || p.GRPC > 0 || p.Details != viaUpstream && causeOf(p.Flags).Hop != HopNone
}

// stayed reports whether the last attempt did not leave the proxy: it had no
// host, or the proxy refused to send it, which can happen with or without a
// selected host.
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

// left returns how many attempts of the line left the proxy. Envoy counts an
// attempt even if it then stayed.
func (p *ProxyEntry) left() int {
	if p.stayed() {
		return max(p.Attempts-1, 0)
	}
	return max(p.Attempts, 1)
}

// why returns what an attempt's line says about its failure; "" if there is
// none.
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

// passed reports whether the response came from the upstream rather than the
// proxy. If the client hangs up while reading, the details say so in place of
// via_upstream, so this relies on the flags: a response generated by the proxy
// has one.
func (p *ProxyEntry) passed() bool {
	return p.Host != "" && p.Status > 0 && (p.Details == viaUpstream || causeOf(p.Flags).Hop == HopNone || p.hangup())
}

// hangup reports whether the caller went away and nothing else is known.
func (p *ProxyEntry) hangup() bool {
	c := causeOf(p.Flags)
	return c.Short == "DC" || c.Short == "DR"
}

func (w *WorkerEntry) failed() bool {
	return w.Ended != EndAnswered || w.Status > 299 || (w.Status > 0 && w.Status < 200)
}
