package push

import "math"

// Debouncer is istiod's debouncing of changes (function debounce of
// pilot/pkg/xds/discovery.go): when changes are pushed together. Times are
// seconds and must not go back.
type Debouncer struct {
	After, Max float64

	events      int
	first, last float64 // of the changes that wait
	timer       float64
	armed, busy bool
}

// Change notes a change at a time.
func (d *Debouncer) Change(now float64) {
	d.last = now
	if d.events == 0 {
		d.arm(now + d.After)
		d.first = now
	}
	d.events++
}

// Timer is when to call [Debouncer.Fire]; +Inf if there is nothing to wait for.
func (d *Debouncer) Timer() float64 {
	if !d.armed {
		return math.Inf(1)
	}
	return d.timer
}

// Fire tells whether the changes that wait are pushed now that the timer has
// ended. A timer that ends while a push context is being made is lost: what
// it was for is looked at in [Debouncer.Done].
func (d *Debouncer) Fire(now float64) (push bool) {
	d.armed = false
	return !d.busy && d.worker(now)
}

// Done notes that the push context of the last push is made, and tells
// whether the next push begins at once.
func (d *Debouncer) Done(now float64) (push bool) {
	d.busy = false
	return d.worker(now)
}

func (d *Debouncer) worker(now float64) bool {
	const rounding = 1e-9
	if d.events == 0 {
		return false
	}
	if now-d.first < d.Max-rounding && now-d.last < d.After-rounding {
		d.arm(d.last + d.After)
		return false
	}
	d.events, d.busy, d.armed = 0, true, false
	return true
}

func (d *Debouncer) arm(at float64) { d.timer, d.armed = at, true }
