package journal

import (
	"time"

	"golang.org/x/sys/unix"
)

// awake returns the time since boot, including sleep, during which the Lease may have been
// lost.
func awake() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return 0 // cannot fail: every Linux has it
	}
	return time.Duration(now.Nano())
}

// state says what is known of a Lease's holder.
type state int

const (
	unsure state = iota
	alive        // it renewed while watched
	free
)

// watched is a Lease as last read.
type watched struct {
	version string
	since   time.Duration // last read, by awake
	silent  time.Duration // since the version changed
	renewed bool
}

// silentMost limits how much of the time between two reads counts as silence of the holder.
const silentMost = 5 * lookEvery

// look returns the state of the holder, given the version of the Lease just read.
func (w *watched) look(version string, h Holder, now time.Duration, dead func(process string) bool) state {
	switch {
	case h.Run == "":
		return free
	case h.Process != "" && dead != nil && dead(h.Process):
		return free
	case w.version == "":
		w.version, w.since = version, now
	case w.version != version:
		w.version, w.since, w.silent, w.renewed = version, now, 0, true
	default:
		// While the API server is down, the holder cannot renew.
		w.silent += min(now-w.since, silentMost)
		w.since = now
	}
	if w.silent >= Lapse {
		return free
	}
	if w.renewed {
		return alive
	}
	return unsure
}
