package stat

import (
	"math"
	"slices"
)

// BetweenRuns estimates how much larger the values of runs b are than those of
// runs a, as a fraction of a, from one value per run. The run is what varies
// independently; its blocks share the conditions of that run. If all values are
// positive it is the ratio of geometric means less 1, with Welch's interval on
// logarithms (see [RelativeDifference] for why logarithms); otherwise
// mean(b)/mean(a) - 1 with Fieller's interval (see [UnpairedRatio]).
//
// If a side has one run, its scatter is unknown and the other side's is used, as
// in a t-test with equal variances. With one run on each side there is no
// interval.
func BetweenRuns(a, b []float64, o Options) Estimate {
	if x, y := logarithms(a), logarithms(b); x != nil && y != nil {
		if all := slices.Concat(a, b); len(all) > 0 {
			o.Resolution /= slices.Min(all) // a step relative to the smallest value
		}
		e := newRunSamples(x, y, o).difference()
		e.Value, e.Low, e.High = math.Expm1(e.Value), math.Expm1(e.Low), math.Expm1(e.High)
		return e
	}
	return newRunSamples(a, b, o).ratio()
}

// BetweenRunsDifference estimates the mean of runs b minus that of runs a, with
// Welch's interval from run to run; see [BetweenRuns] for sides of one run.
func BetweenRunsDifference(a, b []float64, o Options) Estimate {
	return newRunSamples(a, b, o).difference()
}

// newRunSamples is newTwoSamples, except that a side with one value gets the
// other side's variance.
func newRunSamples(a, b []float64, o Options) twoSamples {
	s := newTwoSamples(a, b, o)
	s.Warnings = nil
	na, nb := len(s.a), len(s.b)
	if min(na, nb) != 1 || max(na, nb) < 2 {
		return s
	}
	var sd float64
	if na > 1 {
		_, sd = meanStdDev(s.a)
	} else {
		_, sd = meanStdDev(s.b)
	}
	s.varA, s.varB = o.variance(sd*sd/float64(na)), o.variance(sd*sd/float64(nb))
	s.SE, s.DF = math.Sqrt(s.varA+s.varB), float64(max(na, nb)-1)
	s.warn(noteOneRun)
	return s
}

// logarithms returns the logarithms of positive values; nil if one is not
// positive.
func logarithms(x []float64) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		if !(v > 0) || math.IsInf(v, 1) {
			return nil
		}
		out[i] = math.Log(v)
	}
	return out
}
