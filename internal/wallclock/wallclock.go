// Package wallclock detects steps of the wall clock. NTP slews both of a machine's clocks
// equally, while a step moves only the wall clock, so the difference between the two shows
// how far it was stepped since the process started.
package wallclock

import "time"

// Reading is an instant on both clocks, in nanoseconds since 1970.
type Reading struct {
	UnixNS int64 // on the wall clock
	// SteadyNS is the wall clock's time at the process's start plus the monotonic time
	// since then, so it never steps. The values of two processes differ by the steps
	// between their starts.
	SteadyNS int64
}

// SteppedNS returns how far the wall clock was stepped ahead since the process started.
func (r Reading) SteppedNS() int64 { return r.UnixNS - r.SteadyNS }

var began = time.Now()

// Now reads both clocks.
func Now() Reading {
	now := time.Now()
	return Reading{UnixNS: now.UnixNano(), SteadyNS: began.UnixNano() + int64(now.Sub(began))}
}
