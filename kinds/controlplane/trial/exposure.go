package trial

import (
	"strconv"
	"time"

	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
)

// met describes what a request met at removed addresses.
type met struct {
	phantom, failed bool
	lost            time.Duration // in failed attempts at removed addresses
	answered        bool          // by any attempt, without an error
	refused         bool          // the caller saw it fail
}

// exposure counts the attempts that went to addresses already removed, and the outcomes of their
// requests. ahead is the lead of the sidecar's clock over the book's.
func exposure(lines []mesh.AttemptLine, book *addressBook, ahead time.Duration) record.Traffic {
	out := record.Traffic{Failed: map[string]int64{}, ProxyFailed: map[string]int64{}, PhantomFlags: map[string]int64{}, Gone: book.went()}
	// Only the few requests that met such an address are tracked by ID.
	requests := map[string]*met{}
	for _, l := range lines {
		if l.Request {
			out.ProxyFailed[failure(l)]++
			continue
		}
		out.Attempts++
		if l.Unconnected() {
			out.Unconnected++
		}
		if l.GivenUp() {
			out.GivenUp++
		}
		since, ended, gone := book.gone(l.Host.Addr().String(), l.StartNS-int64(ahead))
		if !gone {
			continue
		}
		out.PhantomAttempts++
		if ended {
			out.PhantomEnded++
		}
		out.LastPhantomUS = max(out.LastPhantomUS, float64(l.StartNS-int64(ahead)-since)/1e3)
		r := requests[l.ID]
		if r == nil {
			r = &met{}
			requests[l.ID] = r
		}
		r.phantom = true
		if !l.OK() {
			r.failed = true
			r.lost += time.Duration(l.TookMS) * time.Millisecond
			out.PhantomFailed++
			out.PhantomFlags[failure(l)]++
		}
	}
	for _, l := range lines {
		r := requests[l.ID]
		if r == nil {
			continue
		}
		r.refused = r.refused || l.Request
		r.answered = r.answered || !l.Request && l.OK()
	}
	for _, r := range requests {
		out.PhantomRequests++
		switch {
		case r.refused && r.failed:
			out.PhantomFailures++
		case !r.answered:
			out.PhantomOpen++
		case r.failed:
			out.PhantomHidden++
			out.HiddenMaxUS = max(out.HiddenMaxUS, float64(r.lost.Microseconds()))
		default:
			out.PhantomServed++
		}
	}
	return out
}

// givenUp marks an attempt whose caller disconnected before its end.
const givenUp = "given up"

// failure names why a request or an attempt failed: Envoy's flags, or the status from the endpoint
// itself.
func failure(l mesh.AttemptLine) string {
	if l.GivenUp() {
		return givenUp
	}
	if l.Flags != "-" {
		return l.Flags
	}
	return strconv.Itoa(l.Code)
}
