// Package keeper is the role that deletes a run's namespace when its runner has
// died. It runs in that namespace, and watches the Lease that the runner renews
// while it works.
package keeper

import (
	"fmt"
	"time"

	"github.com/meshtrial/meshtrial/lab/journal"
)

// Every is the keeper's polling interval for the Lease. Together with
// [journal.Lapse] and the ten seconds that the cluster takes to delete a
// namespace, less than a minute passes from a runner's death until nothing of its
// run is left.
const Every = 3 * time.Second

// Lease has the fields of a Lease that the keeper needs: its holder, and a value
// that changes with every renewal.
type Lease struct {
	Holder  string // a run; "" if not held
	Version string
}

// watch decides from readings of the Lease whether a run is over. It relies only
// on this process's monotonic clock: the times in a Lease come from the runner's
// clock, which may be wrong.
type watch struct {
	run string

	version string
	silent  time.Duration // since it changed
	looked  time.Time     // last reading; zero: none since the API server was silent
}

// saw processes a reading at now, nil if the Lease does not exist. It returns why
// the run is over; "" if it is not.
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
		// If the keeper itself stood still, along with its node, the runner may
		// have too, and a renewal would have gone unnoticed.
		w.silent += min(now.Sub(w.looked), 2*Every)
	}
	w.version, w.looked = lease.Version, now
	if w.silent >= journal.Lapse {
		return fmt.Sprintf("the runner has not renewed its Lease for %v", w.silent.Round(time.Second))
	}
	return ""
}

// unanswered records that the Lease could not be read. While the API server does
// not respond, the runner cannot renew it either, so silence counts from the next
// response.
func (w *watch) unanswered() { w.looked, w.silent = time.Time{}, 0 }
