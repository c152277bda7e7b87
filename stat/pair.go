package stat

import "math"

// A Pair holds what one block measured: the baseline and the cell under test,
// minutes apart on the same machine. With a doubled baseline, Base is the mean
// of both.
type Pair struct {
	Base, Test float64
}

// Difference estimates test minus baseline, in the unit of the values: the mean
// over blocks of the difference inside each block, with Student's t interval on
// those differences. Drift from block to block cancels. It leaves out pairs
// with a missing number, with a warning.
func Difference(pairs []Pair, o Options) Estimate {
	d := make([]float64, len(pairs))
	for i, p := range pairs {
		d[i] = p.Test - p.Base
	}
	return Mean(d, o.differing(1, 1))
}

// RelativeDifference estimates test/baseline - 1, a plain fraction: the
// geometric mean over blocks of the ratio inside each block, with Student's t
// interval on the logarithms. Noise of latency and CPU is multiplicative, so
// log ratios have even scatter, and swapping the two sides inverts the answer
// (Fleming and Wallace, "How not to lie with statistics", CACM 1986). It leaves
// out pairs with a number that is missing or not positive, with a warning.
func RelativeDifference(pairs []Pair, o Options) Estimate {
	r := make([]float64, len(pairs))
	var base, test float64 // a step relative to the smallest value of either side
	for i, p := range pairs {
		if r[i] = logRatio(p); Finite(r[i]) {
			base, test = math.Max(base, 1/p.Base), math.Max(test, 1/p.Test)
		}
	}
	e := Mean(r, o.differing(base, test))
	e.Value, e.Low, e.High = math.Expm1(e.Value), math.Expm1(e.Low), math.Expm1(e.High)
	return e
}

// logRatio returns log(test/baseline), NaN if there is no ratio.
func logRatio(p Pair) float64 {
	if p.Base > 0 && p.Test > 0 {
		return math.Log(p.Test / p.Base)
	}
	return math.NaN()
}
