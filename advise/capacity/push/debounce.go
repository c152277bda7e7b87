package push

import "math"

// Debouncer models istiod's debouncing of changes (function debounce of
// pilot/pkg/xds/discovery.go): when changes are pushed together. Times are in
// seconds and must not decrease.
type Debouncer struct {
	After, Max float64

	events      int
	first, last float64 // of the waiting changes
	timer       float64
	armed, busy bool
}

// Change records a change.
func (d *Debouncer) Change(now float64) {
	d.last = now
	if d.events == 0 {
		d.arm(now + d.After)
		d.first = now
	}
	d.events++
}

// Timer returns when to call [Debouncer.Fire], or +Inf if nothing is waiting.
func (d *Debouncer) Timer() float64 {
	if !d.armed {
		return math.Inf(1)
	}
	return d.timer
}

// Fire reports whether the waiting changes are pushed when the timer expires. A
// timer that expires while a push context is being made is lost;
// [Debouncer.Done] handles its changes.
func (d *Debouncer) Fire(now float64) (push bool) {
	d.armed = false
	return !d.busy && d.worker(now)
}

// Done records that the push context of the last push is complete, and reports
// whether the next push begins immediately.
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
