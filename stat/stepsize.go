package stat

import (
	"math"
	"slices"
)

// StepSize estimates how much larger the level after a step is than the level
// before it, as a fraction of the latter. It works like [BetweenRuns], but with
// Student's interval of one variance: the permutation test for steps assumes that
// runs scatter equally before and after a step, and three runs alone are too few
// to estimate their scatter. Values farther than four robust standard deviations
// from the median of their side count as if they were at that distance. The
// interval takes the position of the step as given.
func StepSize(before, after []float64, o Options) Estimate {
	x, y := logarithms(before), logarithms(after)
	if x == nil || y == nil {
		x, y = drawnIn(before, after)
		return oneVariance(x, y, o).ratio()
	}
	x, y = drawnIn(x, y)
	e := oneVariance(x, y, o).difference()
	e.Value, e.Low, e.High = math.Expm1(e.Value), math.Expm1(e.Low), math.Expm1(e.High)
	return e
}

// StepDifference is StepSize in the unit of the values.
func StepDifference(before, after []float64, o Options) Estimate {
	x, y := drawnIn(before, after)
	return oneVariance(x, y, o).difference()
}

// drawnIn returns the values of two sides, with outliers of each side drawn in
// towards its median.
func drawnIn(before, after []float64) (x, y []float64) {
	x, y = slices.Clone(before), slices.Clone(after)
	if len(x) == 0 || len(y) == 0 {
		return x, y
	}
	var off []float64
	medians := []float64{Median(x), Median(y)}
	for side, values := range [][]float64{x, y} {
		for _, v := range values {
			off = append(off, math.Abs(v-medians[side]))
		}
	}
	if far := 4 * 1.4826 * Median(off); far > 0 {
		for side, values := range [][]float64{x, y} {
			for i, v := range values {
				values[i] = max(medians[side]-far, min(medians[side]+far, v))
			}
		}
	}
	return x, y
}

// oneVariance is newTwoSamples with a common variance for both sides.
func oneVariance(x, y []float64, o Options) twoSamples {
	s := newTwoSamples(x, y, o)
	s.Warnings = nil
	na, nb := float64(len(s.a)), float64(len(s.b))
	if min(na, nb) < 1 || na+nb < 3 {
		return s
	}
	var squares float64
	for _, side := range [][]float64{s.a, s.b} {
		if len(side) > 1 {
			_, sd := meanStdDev(side)
			squares += sd * sd * float64(len(side)-1)
		}
	}
	s.DF = na + nb - 2
	s.varA, s.varB = squares/s.DF/na, squares/s.DF/nb
	s.SE = math.Sqrt(s.varA + s.varB)
	return s
}
