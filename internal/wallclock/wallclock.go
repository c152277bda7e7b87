// Package wallclock detects steps of the wall clock. NTP slews both of a machine's clocks
// alike; a step moves the wall clock alone, so the difference of the two is how far it was
// stepped since the process started.
package wallclock

import "time"

// Reading is an instant by both clocks, in nanoseconds since 1970.
type Reading struct {
	UnixNS int64 // by the wall clock
	// SteadyNS is the wall clock's time at the process's start plus the monotonic time
	// since then: it never steps. Two processes' differ by the steps between their starts.
	SteadyNS int64
}

// SteppedNS is how far the wall clock was stepped ahead since the process started.
func (r Reading) SteppedNS() int64 { return r.UnixNS - r.SteadyNS }

var began = time.Now()

// Now reads both clocks.
func Now() Reading {
	now := time.Now()
	return Reading{UnixNS: now.UnixNano(), SteadyNS: began.UnixNano() + int64(now.Sub(began))}
}
