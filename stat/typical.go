package stat

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// Typical estimates the typical value of a block: the median over blocks of one
// value per block. It is meant for values that are reported without a comparison.
// Values that are not finite are left out, with a warning.
//
// An interval of the mean claims more than few blocks can show. If one trial in
// twenty takes ten times as long, or a neighbour is active a tenth of the time,
// most short runs see none or too many of those, and an interval of the mean
// covers the long-term mean in 20 to 60% of them. The median hardly moves, and its
// interval covers it in 94 to 96% for any distribution, normal or not
// (TestSimulationTypical). The number of values below the true median is binomial,
// so two of the values bound it; between two levels it is interpolated
// (Hettmansperger and Sheather, "Confidence intervals based on interpolated order
// statistics", Statistics & Probability Letters 1986). Fewer than six values bound
// it at less than 95%. The interval is then their range, widened about the median
// as Student's interval would be.
func Typical(values []float64, o Options) Estimate {
	x, lost := keepFinite(values)
	slices.Sort(x)
	n := len(x)
	e := Estimate{
		Value: math.NaN(), Low: math.Inf(-1), High: math.Inf(1),
		SE: math.NaN(), Level: o.level(), Blocks: n,
	}
	if lost > 0 {
		e.warn(noteLostBlocks, lost, len(values))
	}
	switch n {
	case 0:
		e.warn(noteNoBlock)
		return e
	case 1:
		e.Value = x[0]
		e.warn(noteOneBlock)
		return e
	}
	e.Value, e.DF = Median(x), float64(n-1)
	if e.Low, e.High = medianBounds(x, e.Level); n == 2 {
		m := meanOf(x, o) // identical to the last digit
		e.Value, e.Low, e.High = m.Value, m.Low, m.High
	}
	half := tQuantile(1-(1-e.Level)/2, e.DF) * o.rounding()
	e.Low, e.High = math.Min(e.Low, e.Value-half), math.Max(e.High, e.Value+half)
	e.SE = (e.High - e.Low) / 2 / tQuantile(1-(1-e.Level)/2, e.DF)
	if x[0] < x[n-1] && n < 4 { // if all values are the same, Low == High shows it
		e.warn(noteFewBlocks, n)
	}
	if i, far := outlier(x); far {
		e.warn(noteOutlierLevel, o.say(x[i]))
	}
	return e
}

// medianBounds returns the interval of the median of at least two ascending
// values.
func medianBounds(x []float64, level float64) (low, high float64) {
	n := len(x)
	b := distuv.Binomial{N: float64(n), P: 0.5}
	// covers returns how often the d-th value from either end bounds the median.
	covers := func(d int) float64 { return 1 - 2*b.CDF(float64(d-1)) }
	if covers(1) < level {
		m := Median(x)
		wider := tQuantile(1-(1-level)/2, float64(n-1)) / tQuantile(1-(1-covers(1))/2, float64(n-1))
		if n == 3 {
			wider *= 1.2 // the median of three scatters more than the mean
		}
		return m - (m-x[0])*wider, m + (x[n-1]-m)*wider
	}
	d := 1
	for 2*(d+1) <= n && covers(d+1) >= level {
		d++
	}
	if 2*(d+1) > n+1 {
		return x[d-1], x[n-d]
	}
	share := (covers(d) - level) / (covers(d) - covers(d+1))
	inward := float64(n-d) * share / (float64(d) + float64(n-2*d)*share)
	return line(x[d-1], x[d], inward), line(x[n-d], x[n-d-1], inward)
}
