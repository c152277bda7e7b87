package fit

import (
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/advise/capacity/model"
	"github.com/meshtrial/meshtrial/advise/capacity/push"
	"github.com/meshtrial/meshtrial/stat"
)

// simulation is what a trial's simulation reveals that was not measured.
type simulation struct {
	// off has an entry for each of parallels. It is nil if unknown, or if pushes overlap while
	// those of other trials do not: overlapping pushes take what the CPUs allow, whatever runs
	// in parallel.
	off []offBy
	// Per push, by type: the number of changes with their own part, whether it is a full push,
	// and the share that istiod regenerates.
	own, whole, anew [push.Types]float64
	// missed is the logarithm of the error in the number of pushes.
	missed float64
}

// offBy holds the logarithms of simulated over measured times.
type offBy struct {
	waited float64 // pilot_proxy_convergence_time
	p50    float64 // of convergence; 0 if it was not measured
}

// rounds of simulating all trials and fitting the results: what pushes merge depends on how long
// they take, which in turn depends on what they merge.
const (
	rounds     = 4
	mostRounds = 10
	// reproduces is the maximum error of a simulated trial's number of pushes, as a logarithm.
	// If the last round exceeds it, the round with the smallest error counts.
	reproduces = 0.03
)

// settle fits all trials. It starts by assuming that pushes do not overlap.
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
	someCalm := slices.ContainsFunc(f.all, (*Observation).calm)
	var best *estimate
	var made map[*Observation]simulation // the simulation that best came from
	least := math.Inf(1)
	for round := 0; round <= rounds || least > reproduces && round <= mostRounds; round++ {
		e := f.estimate(f.all, preference{})
		next, off := map[*Observation]simulation{}, 0.0
		for _, o := range f.all {
			next[o] = simulateTrial(e.values, o, f.simulated[o], o.calm() || !someCalm, seed)
			off = math.Max(off, next[o].missed)
		}
		if off < least || off <= reproduces {
			best, made, least = e, f.simulated, off
		}
		f.simulated = next
	}
	f.simulated = made
	return best
}

// parallels are the values tried, in this order.
var parallels = []float64{1, 1.1, 1.2, 1.35, 1.5, 1.75, 2, 2.5, 3, 4}

// between is the number of steps into which their intervals are divided.
const between = 8

// parallelOf returns the value at which the trials' pushes take, on the whole, as long as istiod
// and proxies report. It interpolates times linearly between the values tried. If times hardly
// depend on the value, the result is near the assumed one.
func parallelOf(all []*Observation, simulated map[*Observation]simulation) float64 {
	best, least := math.NaN(), math.Inf(1)
	for step := range between*(len(parallels)-1) + 1 {
		i, share := step/between, float64(step%between)/between
		k := min(i+1, len(parallels)-1)
		at := parallels[i] + share*(parallels[k]-parallels[i])
		sum, n := 0.0, 0.0
		for _, o := range all {
			if off := simulated[o].off; off != nil {
				waited, p50 := off[i].waited+share*(off[k].waited-off[i].waited), off[i].p50+share*(off[k].p50-off[i].p50)
				sum, n = sum+waited*waited+p50*p50, n+1
			}
		}
		strays := unsure * math.Log(at/model.Definitions[model.Parallel].Assumed)
		if sum += n * strays * strays; n > 0 && sum < least {
			best, least = at, sum
		}
	}
	return best
}

// simulateTrial simulates a trial's own changes. tells says that the trial is evidence for
// parallel: simulateTrial then tries each value, and reports what the best one merged.
func simulateTrial(v model.Values, o *Observation, before simulation, tells bool, seed uint64) simulation {
	out := simulation{}
	fitted, err := v.Simulate(o.Mesh(), seed)
	if err != nil || fitted.Turns == 0 {
		return before
	}
	var best *push.Result
	least := math.Inf(1)
	try := parallels
	if !(o.Waited > 0) || !tells {
		try = []float64{v[model.Parallel]}
	}
	for _, p := range try {
		v[model.Parallel] = p
		r, err := v.Simulate(o.Mesh(), seed)
		if err != nil || r.Turns == 0 {
			return before
		}
		off := offBy{waited: math.Log(r.Waited / r.Turns / o.Waited)}
		if p50 := r.Convergence.Quantile(0.5); o.P50 > 0 && stat.Finite(o.P50) && p50 > 0 {
			off.p50 = math.Log(p50 / o.P50)
		}
		out.off = append(out.off, off)
		if by := math.Hypot(off.waited, off.p50); best == nil || by < least {
			least, best = by, r
		}
	}
	if len(out.off) < len(parallels) {
		out.off = nil
	}
	out.missed = o.missedBy(fitted)
	best = asMeasured(v, o, best, seed)
	for t := range push.Types {
		if o.Pushes[t] > 0 && best.Pushes[t] > 0 {
			out.own[t] = best.Own[t] / o.Pushes[t]
			out.whole[t] = best.Whole[t] / best.Pushes[t]
			out.anew[t] = best.Anew[t] / best.Pushes[t]
		}
	}
	return out
}

// missedBy returns the logarithm of a simulation's error in the number of pushes.
func (o *Observation) missedBy(r *push.Result) float64 {
	return math.Abs(math.Log(r.AllPushes() / total(o.Pushes[:])))
}

// Simulated pushes with a smaller error merge the same changes as the measured ones.
const merged = 0.05

// costs are factors on the costs fitted so far, tried if pushes merge differently than measured.
var costs = []float64{0.25, 0.35, 0.5, 0.6, 0.7, 0.8, 0.9, 1.1, 1.25, 1.5, 2, 3}

// asMeasured simulates a trial at other costs if its pushes merged more or fewer changes than
// measured, and returns the closest result. A mesh near its limit is in one of two states, calm
// or with overlapping pushes, and an early fit may predict the wrong one.
func asMeasured(v model.Values, o *Observation, r *push.Result, seed uint64) *push.Result {
	best, least := r, o.missedBy(r)
	if !(least > merged) {
		return r
	}
	for _, times := range costs {
		w := v
		for t := range push.Types {
			for _, p := range []model.Parameter{model.CPUOf(t), model.CPUPerServiceOf(t)} {
				w[p] *= times
			}
		}
		for _, p := range []model.Parameter{model.ChangeCPU, model.CDSCPUPerChange, model.EDSCPUPerChange, model.EDSCPUWhole, model.RDSCPUAnew} {
			w[p] *= times
		}
		if other, err := w.Simulate(o.Mesh(), seed); err == nil && o.missedBy(other) < least {
			best, least = other, o.missedBy(other)
		}
	}
	return best
}
