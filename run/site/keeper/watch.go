// Package keeper is the role that takes a run's namespace away when its runner
// has died: it lives in that namespace, and watches the Lease that the runner
// renews for as long as it is at work.
package keeper

import (
	"fmt"
	"time"

	"github.com/meshtrial/meshtrial/lab/journal"
)

// Every is how often the keeper asks for the Lease. With [journal.Lapse] and what
// the cluster takes to end a namespace, ten seconds, it is less than a minute
// from a runner's death until nothing of its run is left.
const Every = 3 * time.Second

// Lease is what the keeper needs to know of one: who holds it, and something
// that changes whenever it is renewed.
type Lease struct {
	Holder  string // a run; "": nobody
	Version string
}

// watch judges whether a run is over by what is read of the Lease. It goes by
// this process's monotonic clock alone: the times in a Lease are of the
// runner's clock, which may be any.
type watch struct {
	run string

	version string
	silent  time.Duration // since it changed
	looked  time.Time     // the last time that it was read; zero: not since the API server was silent
}

// saw takes what was read at now, nil if there is no such Lease. It returns
// why the run is over; "" if it is not.
func (w *watch) saw(now time.Time, lease *Lease) string {
	switch {
	case lease == nil:
		return "the cluster's Lease is gone"
	case lease.Holder == "":
		return "nobody holds the cluster's Lease"
	case lease.Holder != w.run:
		return fmt.Sprintf("run %s holds the cluster's Lease", lease.Holder)
	}
	if w.looked.IsZero() || lease.Version != w.version {
		w.silent = 0
	} else {
		// Where the keeper itself stood still, with its node, the runner may have
		// too, and nobody would have seen a renewal.
		w.silent += min(now.Sub(w.looked), 2*Every)
	}
	w.version, w.looked = lease.Version, now
	if w.silent >= journal.Lapse {
		return fmt.Sprintf("the runner has not renewed its Lease for %v", w.silent.Round(time.Second))
	}
	return ""
}

// unanswered takes that the Lease could not be read: as long as the API server
// does not answer the runner cannot renew it either, and silence counts from
// the next answer on.
func (w *watch) unanswered() { w.looked, w.silent = time.Time{}, 0 }
