// Package loadtest makes results of the load generator for tests of other packages.
package loadtest

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/meshtrial/meshtrial/drive/load"
)

// Result returns a result with one interval of a second and empty histograms.
func Result(account load.Account, opened, connects int64) *load.Result {
	empty := func() *hdrhistogram.PackedHistogram {
		like := load.NewHistogram()
		return hdrhistogram.NewPacked(like.LowestTrackableValue(), like.HighestTrackableValue(), int(like.SignificantFigures()))
	}
	return &load.Result{
		Spec: load.DefaultSpec("http://server:8080/"), Start: time.Unix(0, 0), Replicas: 1, Opened: opened, EndNS: 1e9,
		Intervals: []load.Interval{{
			DurationNS: 1e9,
			Counts: load.Counts{Account: account, Connects: connects,
				Within: load.Within{Answered: account.Completed, Failed: account.FailedTotal()}},
			Intended: empty(), Send: empty(), Lag: empty(), Wait: empty(),
		}},
	}
}
