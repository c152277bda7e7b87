package stat

import "math"

// A Pair holds what one block measured: the baseline and the cell under test,
// minutes apart on the same machine. With a doubled baseline, Base is the mean
// of both.
type Pair struct {
	Base, Test float64
}

// Difference estimates test minus baseline, in the unit of the values: the
// mean over blocks of the difference inside each block, with Student's t
// interval on those differences. Drift from block to block cancels. Pairs with
// a number missing are left out, with a warning.
func Difference(pairs []Pair, o Options) Estimate {
	d := make([]float64, len(pairs))
	for i, p := range pairs {
		d[i] = p.Test - p.Base
	}
	e := Mean(d, o)
	e.Method = "Student's t on differences inside blocks"
	return e
}

// RelativeDifference estimates test/baseline - 1, a plain fraction: the
// geometric mean over blocks of the ratio inside each block, with Student's t
// interval on the logarithms. Noise of latency and CPU is multiplicative, so
// logarithms of ratios vary evenly, and swapping the two sides inverts the
// answer (Fleming and Wallace, "How not to lie with statistics", CACM 1986).
// Pairs with a number missing or not above zero are left out, with a warning.
func RelativeDifference(pairs []Pair, o Options) Estimate {
	r := make([]float64, len(pairs))
	for i, p := range pairs {
		r[i] = logRatio(p)
	}
	e := Mean(r, o)
	e.Value, e.Low, e.High = math.Expm1(e.Value), math.Expm1(e.Low), math.Expm1(e.High)
	e.Log = true
	e.Method = "Student's t on log ratios inside blocks"
	return e
}

// logRatio is NaN where no ratio exists.
func logRatio(p Pair) float64 {
	if p.Base > 0 && p.Test > 0 {
		return math.Log(p.Test / p.Base)
	}
	return math.NaN()
}

// Unpaired estimates the mean of b minus the mean of a for blocks that do not
// belong together, such as those of two runs, with Welch's interval (unequal
// variances; degrees of freedom after Satterthwaite). It is what `compare`
// uses, and less sharp than a paired difference.
func Unpaired(a, b []float64, o Options) Estimate {
	x, lostA := keepFinite(a)
	y, lostB := keepFinite(b)
	e := Estimate{
		Value: math.NaN(), Low: math.Inf(-1), High: math.Inf(1),
		SE: math.NaN(), Level: o.level(), Blocks: min(len(x), len(y)),
		Method: "Welch's t on blocks of two runs",
	}
	if lostA+lostB > 0 {
		e.warn("%d of %d blocks gave no number", lostA+lostB, len(a)+len(b))
	}
	if len(x) == 0 || len(y) == 0 {
		e.warn("no block gave a number")
		return e
	}
	if len(x) < 2 || len(y) < 2 {
		e.Value = mean(y) - mean(x)
		e.warn("one block: nothing is known about the spread between blocks")
		return e
	}
	ma, sa := meanStdDev(x)
	mb, sb := meanStdDev(y)
	va, vb := sa*sa/float64(len(x)), sb*sb/float64(len(y))
	e.Value, e.SE = mb-ma, math.Sqrt(va+vb)
	if va+vb == 0 {
		e.Low, e.High, e.DF = e.Value, e.Value, float64(len(x)+len(y)-2)
		e.warn("all blocks of each run gave the same value: the interval has no width")
		return e
	}
	// Ratios first: squares of tiny variances would underflow.
	ra, rb := va/(va+vb), vb/(va+vb)
	e.DF = 1 / (ra*ra/float64(len(x)-1) + rb*rb/float64(len(y)-1))
	half := tQuantile(1-(1-e.Level)/2, e.DF) * e.SE
	e.Low, e.High = e.Value-half, e.Value+half
	return e
}
