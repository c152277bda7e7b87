package fit

import (
	"math"

	"github.com/meshtrial/meshtrial/advise/capacity/model"
	"github.com/meshtrial/meshtrial/advise/capacity/push"
)

// simulation is what simulating a trial says of it that nobody counts.
type simulation struct {
	// off is, for each of parallels, by how much pushes then take longer or shorter
	// than pilot_proxy_convergence_time says, the logarithm; nil: not known, or
	// pushes overlap, so that they take what the CPUs allow, whatever is beside what.
	off []float64
	// Of a push, by type: how many changes in it have a part of their own, whether
	// it is whole, and whether it is made anew.
	own, whole, anew [push.Types]float64
}

// rounds of simulating all trials and fitting what follows: what pushes merge
// depends on how long they take, and that on what they merge.
const rounds = 4

// settle fits all trials. At first pushes are taken not to overlap.
func (f *fitter) settle(seed uint64) *estimate {
	f.simulated = map[*Observation]simulation{}
	for _, o := range f.all {
		s := simulation{}
		for t := range push.Types {
			if o.Pushes[t] > 0 {
				s.own[t] = o.Pairs[t] / o.Pushes[t]
				s.anew[t] = math.Min(1, float64(o.Namespaces*o.Replicas)/float64(o.Proxies))
			}
		}
		f.simulated[o] = s
	}
	e := f.estimate(f.all)
	for range rounds {
		for _, o := range f.all {
			f.simulated[o] = simulateTrial(e.values, o, f.simulated[o], seed)
		}
		e = f.estimate(f.all)
	}
	return e
}

// parallels are tried, in this order.
var parallels = []float64{1, 1.1, 1.2, 1.35, 1.5, 1.75, 2, 2.5, 3, 4}

// parallelOf is that of trials: the one with which pushes take, on the whole, what
// istiod says.
func parallelOf(all []*Observation, simulated map[*Observation]simulation) float64 {
	best, least := math.NaN(), math.Inf(1)
	for i, p := range parallels {
		sum, n := 0.0, 0
		for _, o := range all {
			if off := simulated[o].off; off != nil {
				sum += off[i] * off[i]
				n++
			}
		}
		if n > 0 && sum < least {
			best, least = p, sum
		}
	}
	return best
}

// simulateTrial simulates a trial's own changes; a calm one with any part of a
// turn's CPU time beside its path, and what merged is that of the part that fits
// best.
func simulateTrial(v model.Values, o *Observation, before simulation, seed uint64) simulation {
	out := simulation{}
	var best *push.Result
	least := math.Inf(1)
	try := parallels
	if !(o.Waited > 0) || !o.calm() {
		try = []float64{v[model.Parallel]}
	}
	for _, p := range try {
		v[model.Parallel] = p
		r, err := v.Simulate(o.Mesh(), seed)
		if err != nil || r.Turns == 0 {
			return before
		}
		off := math.Log(r.Waited / r.Turns / o.Waited)
		out.off = append(out.off, off)
		if best == nil || math.Abs(off) < least {
			least, best = math.Abs(off), r
		}
	}
	if len(out.off) < len(parallels) {
		out.off = nil
	}
	for t := range push.Types {
		if o.Pushes[t] > 0 && best.Pushes[t] > 0 {
			out.own[t] = best.Own[t] / o.Pushes[t]
			out.whole[t] = best.Whole[t] / best.Pushes[t]
			out.anew[t] = best.Anew[t] / best.Pushes[t]
		}
	}
	return out
}
