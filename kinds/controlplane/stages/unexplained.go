package stages

import (
	"math"

	"github.com/meshtrial/meshtrial/record"
)

// ownWay is what the stages say of one change-proxy pair,
// nanoseconds.
type ownWay struct {
	took, staged float64 // measured, and the sum of its stages
	place        float64 // see [maker.place]
	logged       bool    // from end to end
}

// sum is all that the stages of all pairs so far add up to, nanoseconds.
func (m *maker) sum() float64 {
	total := 0.0
	for _, name := range record.Stages() { // in one order: the same sum each time
		total += m.stages[name].sum
	}
	return total
}

// single counts the pairs of one change whose own stages do not add up. The
// mean over all pairs does not show those: one that is too long makes up for
// another that is too short, and two that are wholly wrong vanish among forty.
//
// Queue and generation are means, of proxies that take turns: which of them
// comes first is chance, and no error. So each pair is set against the mean of
// its change's turns in the log, not of its own; by how much that differs from
// the timers' means stays in.
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
