package load

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/meshtrial/meshtrial/drive/load/arrival"
	"github.com/meshtrial/meshtrial/internal/errs"
)

// RateChange is a rate change during a run.
type RateChange struct {
	AtNS int64   `json:"at_ns"`    // since the run's start
	RPS  float64 `json:"rate_rps"` // from then on; over all generators if they share it
}

// Bounds of the lead time of an immediate change, so that every event loop sees it in time.
// The lead doubles while the machine is too busy for that.
const (
	changeLead    = 5 * time.Millisecond
	maxChangeLead = time.Second
)

// change is a change that was proposed to the event loops, linked to later ones. Every loop
// checks for new changes after it has read the clock and before it sends due requests. So
// once a change is accepted before its time, no loop sends requests of the old schedule after
// it.
type change struct {
	at    int64
	rps   float64
	state atomic.Int32
	next  atomic.Pointer[change]
}

// States of a change.
const (
	changeProposed = iota
	changeAccepted
	changeRefused // its time had passed
)

// propose adds a change after the last one, and reports whether it was accepted before its
// time.
func (last *change) propose(at int64, rps float64, now func() int64) (*change, bool) {
	c := &change{at: at, rps: rps}
	last.next.Store(c)
	// A loop that read a time of at or later without seeing c read it before now.
	if now() >= at {
		c.state.CompareAndSwap(changeProposed, changeRefused)
		return c, false
	}
	return c, c.state.CompareAndSwap(changeProposed, changeAccepted)
}

// settled reports whether the change is decided, for a loop whose clock is at now: a change
// that is undecided at its time is refused.
func (c *change) settled(now int64) bool {
	if now >= c.at {
		c.state.CompareAndSwap(changeProposed, changeRefused)
	}
	return c.state.Load() != changeProposed
}

// changes applies changes accepted since the last call.
func (l *loop) changes(now int64) {
	for c := l.change.next.Load(); c != nil && c.settled(now); c = c.next.Load() {
		if c.state.Load() == changeAccepted {
			l.cursor.change(c.at, c.rps)
			l.timers.armed = l.cursor.first // all have new times
		}
		l.change = c
	}
}

// change implements engine.
func (ls *loops) change(at int64, rps float64) bool {
	var ok bool
	ls.last, ok = ls.last.propose(at, rps, func() int64 { return int64(time.Since(ls.epoch)) })
	if ok {
		ls.wake()
	}
	return ok
}

// change implements engine.
func (p *pool) change(at int64, rps float64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now() >= at || p.over {
		return false
	}
	p.cursor.change(at, rps)
	p.poll.wake()
	return true
}

// changer changes a run's rate, one change at a time.
type changer struct {
	mu      sync.Mutex
	made    []RateChange
	set     func(at int64, rps float64) bool
	stopped bool // the schedule was cut at end
	end     int64
}

// list returns the changes made so far, in order.
func (c *changer) list() []RateChange {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.made)
}

// SetRate replaces the planned rate by rps from an instant on; 0 pauses, and the zero time
// means now. Requests due earlier are not affected. The times of later ones depend only on
// the Spec's seed and the changes. It returns the change in force. An instant in the past or
// after the end of the run is an error and changes nothing.
func (r *Running) SetRate(rps float64, at time.Time) (RateChange, error) {
	if err := r.mayChange(rps); err != nil {
		return RateChange{}, errs.WithCode(err, errs.CodeUsage)
	}
	r.changer.mu.Lock()
	defer r.changer.mu.Unlock()
	if !at.IsZero() {
		return r.changeAt(rps, at.UnixNano()-r.Epoch.UnixNano())
	}
	for lead := changeLead; ; lead *= 2 {
		c, err := r.changeAt(rps, max(0, int64(time.Since(r.Epoch)+lead)))
		if !errors.Is(err, ErrLate) || lead >= maxChangeLead {
			return c, err
		}
	}
}

// changeAt changes the rate at an offset. The caller holds the changer's lock.
func (r *Running) changeAt(rps float64, at int64) (RateChange, error) {
	select {
	case <-r.done:
		return RateChange{}, ErrEnded
	default:
	}
	c := RateChange{AtNS: at, RPS: rps}
	if sent := r.Progress().Sent; r.spec.RequestLog && float64(sent)+rps*r.spec.fraction()*max(0, r.spec.DurationS-float64(c.AtNS)/1e9) > MaxLoggedRequests {
		return RateChange{}, errs.WithHint(errs.Usage("rate_rps %v: until the end of the run that exceeds the %d requests that the request log holds", rps, MaxLoggedRequests),
			"use a lower rate, a shorter run, or no request log")
	}
	if r.changer.stopped && at >= r.changer.end {
		return RateChange{}, ErrEnded // or will have ended by then
	}
	if c.AtNS < 0 || !r.changer.set(c.AtNS, rps*r.spec.portion()) {
		return RateChange{}, errs.WithHint(fmt.Errorf("%w: a change of the rate at %.6f s, when the run is at %.6f s", ErrLate, float64(c.AtNS)/1e9, time.Since(r.Epoch).Seconds()),
			"schedule it some milliseconds ahead; clocks of two machines may differ by more")
	}
	if r.changer.stopped {
		r.changer.set(r.changer.end, 0) // the new rate ends there too
	}
	r.changer.made = append(r.changer.made, c)
	return c, nil
}

// cut ends the schedule at an instant, which at returns for a minimum lead. A schedule that
// can change has no requests from then on, even if an event loop sees the end late. At rate
// max a loop may send requests that were due when it saw the end.
func (r *Running) cut(d *deadline, at func(lead time.Duration) int64) {
	r.changer.mu.Lock()
	defer r.changer.mu.Unlock()
	select {
	case <-r.done:
		return
	default:
	}
	changing := !r.spec.Rate.IsMax()
	for lead := changeLead; changing && lead <= maxChangeLead; lead *= 2 {
		end := at(lead)
		if end >= d.end.Load() {
			return
		}
		if r.changer.set(end, 0) {
			r.changer.stopped, r.changer.end = true, end
			d.lower(end)
			return
		}
	}
	d.lower(at(0))
	r.changer.stopped, r.changer.end = true, d.end.Load()
}

// Errors of changes.
var (
	ErrEnded = errors.New("the run has ended")
	ErrLate  = errors.New("the time has passed")
)

// mayChange checks whether the run's rate can become rps.
func (r *Running) mayChange(rps float64) error {
	switch {
	case r.spec.Rate.IsMax():
		return errors.New("rate_rps: a run at rate max has no schedule to change")
	case !(rps >= 0 && rps <= maxRateRPS) || math.Signbit(rps):
		return fmt.Errorf("rate_rps %v: must be between 0 and %.0f requests per second", rps, maxRateRPS)
	}
	return nil
}

// every yields every n-th request of a schedule, after the first skip ones.
type every struct {
	schedule arrival.Schedule
	n, skip  int
}

// Next implements [arrival.Schedule].
func (e *every) Next() (arrival.Request, bool) {
	for ; e.skip > 0; e.skip-- {
		if _, ok := e.schedule.Next(); !ok {
			return arrival.Request{}, false
		}
	}
	req, ok := e.schedule.Next()
	if ok {
		e.skip = e.n - 1
	}
	return req, ok
}

// Change implements [arrival.Schedule].
func (e *every) Change(at int64, rps float64) { e.schedule.Change(at, rps) }

// Again implements [arrival.Schedule].
func (e *every) Again(r arrival.Request) (arrival.Request, bool) { return e.schedule.Again(r) }
