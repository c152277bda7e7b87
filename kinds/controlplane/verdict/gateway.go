package verdict

import (
	"slices"
	"time"

	"github.com/meshtrial/meshtrial/record"
)

// Attachments is the route status of a Gateway, as a watch saw it.
type Attachments struct {
	// Seen lists the distinct successive statuses in order.
	Seen []Attachment `json:"seen"`
	// Before is the number of the Gateway's routes before the first change.
	Before int `json:"before"`
	// WithdrawnNS is when the first route deletion was sent, WithdrawNS when the last was answered.
	WithdrawnNS int64 `json:"withdrawn_unix_ns"`
	WithdrawNS  int64 `json:"withdrawal_answered_unix_ns"`
	// Kept means that not all of them were deleted, and that the status was not awaited.
	Kept bool `json:"kept,omitempty"`
}

// Attachment is a status of a Gateway, and when it was first seen.
type Attachment struct {
	AtNS   int64 `json:"at_unix_ns"`
	Routes int   `json:"routes"` // attached, over all listeners
}

// gateway adds to each change the outcome of requests for its route.
func (r *ruling) gateway() {
	if len(r.seen.Routes) == 0 {
		return
	}
	g := &record.Gateway{EveryUS: r.seen.RoutesEvery.Microseconds(), Routes: len(r.seen.Routes)}
	r.trial.Control.Gateway = g
	asked, unserved, early, relapsed := 0, 0, 0, 0
	var late time.Duration
	for _, s := range r.seen.Routes {
		late, g.Unsent = max(late, s.Late), g.Unsent+s.Unsent
		e := &r.events[s.Change]
		if e.Error != "" || e.CommittedNS == 0 {
			continue
		}
		e.Served = s.Served(e.CommittedNS, int64(r.seen.Clock.Known()))
		asked++
		switch {
		case s.GoodNS == 0:
			unserved++
		case r.here(s.GoodNS)+int64(r.seen.Clock.Bound) < e.SentNS:
			early++
		}
		if s.Relapses > 0 {
			relapsed++
		}
	}
	g.LateUS = late.Microseconds()
	r.Check("routes-unserved-before", early == 0, "%d of %d routes were served before the change that creates them was sent", early, asked)
	if unserved > 0 {
		r.Warn(noteUnserved, unserved, asked)
	}
	if relapsed > 0 {
		r.Warn(noteRelapsed, relapsed, asked)
	}
	if late > r.seen.RoutesEvery || g.Unsent > 0 {
		r.Warn(noteRoutesLate, ms(late), g.Unsent)
	}
}

// here converts a time from the first simulator's clock to this machine's.
func (r *ruling) here(ns int64) int64 { return ns - int64(r.seen.Clock.Known()) }

// attached determines when a Gateway's status showed all routes, and when it showed none again.
func (r *ruling) attached() {
	seen := r.seen.Attached
	if seen == nil {
		return
	}
	out := &record.Attached{Kept: seen.Kept}
	var first, last int64
	made := map[string]bool{}
	for _, e := range r.events {
		if e.Error != "" || e.CommittedNS == 0 {
			continue
		}
		made[e.Object] = true
		last = max(last, e.CommittedNS)
		if first == 0 || e.CommittedNS < first {
			first = e.CommittedNS
		}
	}
	out.Routes = len(made)
	r.trial.Control.Attached = out
	for i, a := range seen.Seen {
		out.Most = max(out.Most, a.Routes)
		switch {
		case i == 0: // initial status
		case a.AtNS >= seen.WithdrawnNS:
			out.Unwrites++
		default:
			out.Writes++
		}
	}
	up := func(a Attachment) bool { return a.AtNS < seen.WithdrawnNS && a.Routes == seen.Before+out.Routes }
	down := func(a Attachment) bool { return a.AtNS >= seen.WithdrawnNS && a.Routes == seen.Before }
	out.AllUS, out.FirstUS = seen.reached(last, up), seen.reached(first, up)
	out.NoneUS, out.NoneFirstUS = seen.reached(seen.WithdrawNS, down), seen.reached(seen.WithdrawnNS, down)
	if out.AllUS == nil {
		r.Warn(noteUnattached, out.Routes)
	}
	if out.NoneUS == nil && !out.Kept {
		r.Warn(noteStillThere)
	}
	if beyond := out.Most - seen.Before - out.Routes; beyond > 0 {
		r.Warn(noteTooMany, beyond)
	}
}

// reached returns the time from an instant until the status was first as wanted, in microseconds;
// nil if it never was.
func (a *Attachments) reached(since int64, wanted func(Attachment) bool) *int64 {
	i := slices.IndexFunc(a.Seen, wanted)
	if i < 0 || since == 0 {
		return nil
	}
	after := max(0, (a.Seen[i].AtNS-since)/1000)
	return &after
}
