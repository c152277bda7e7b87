package journal

import (
	"time"

	"golang.org/x/sys/unix"
)

// awake is the time since boot, including sleep, during which the Lease may have been lost.
func awake() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return 0 // every Linux has it
	}
	return time.Duration(now.Nano())
}

// state is what is known of a Lease's holder.
type state int

const (
	unsure state = iota
	alive        // it renewed while it was watched
	free
)

// watched is a Lease as last seen.
type watched struct {
	version string
	since   time.Duration // the last look, by awake
	silent  time.Duration // since the version changed
	renewed bool
}

// silentMost limits the time between two looks that counts as silence of the holder.
const silentMost = 5 * lookEvery

// look tells what is known of the holder, of whose Lease version is seen now.
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
		// While the API server answers nobody, its holder cannot renew.
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
