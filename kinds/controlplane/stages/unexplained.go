package stages

import (
	"math"

	"github.com/meshtrial/meshtrial/record"
)

// ownWay holds the measured and staged times of one change-proxy pair, in nanoseconds.
type ownWay struct {
	took, staged float64 // measured, and the sum of its stages
	place        float64 // see [maker.place]
	logged       bool    // from end to end
}

// sum returns the total of the stages of all pairs so far, in nanoseconds.
func (m *maker) sum() float64 {
	total := 0.0
	for _, name := range record.Stages() { // fixed order, for a reproducible sum
		total += m.stages[name].sum
	}
	return total
}

// single counts the pairs of one change whose own stages do not add up. The mean over all pairs
// hides those: one that is too long offsets another that is too short, and two that are entirely
// wrong vanish among forty.
//
// Queue and generation are means over proxies that take turns. Their order is random, which is no
// error. So each pair is compared with the mean of its change's turns in the log, not with its own
// turn. The difference from the timers' means remains.
func (m *maker) single(own []ownWay) {
	mean, n := 0.0, 0
	for _, w := range own {
		if !math.IsNaN(w.place) {
			mean, n = mean+w.place, n+1
		}
	}
	for _, w := range own {
		rest := w.took - w.staged
		if !math.IsNaN(w.place) {
			rest += mean/float64(n) - w.place
		}
		rest /= 1e3
		u := &m.unexplained
		u.Pairs++
		if math.Abs(rest) > math.Abs(u.LargestUS) {
			u.LargestUS = rest
		}
		if math.Abs(rest) > record.MaxResidualUS(w.took/1e3) {
			u.Beyond++
			if !w.logged {
				u.Unlogged++
			}
		}
	}
}
