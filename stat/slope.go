package stat

import (
	"math"
	"slices"
)

// A SeriesPoint is a value of a series and the time at which it was measured.
type SeriesPoint struct{ X, Y float64 }

// Limits of a slope's values.
const (
	slopeLeast = 6   // fewer values give no interval
	slopeMost  = 300 // more are merged with their neighbours
)

// Slope estimates how fast a series rises, in units of Y per unit of X: the median of
// the slopes between all pairs of values (Theil and Sen), which is robust to outliers
// in up to a third of the values. The interval is that of Kendall's rank correlation
// (Sen, "Estimates of the regression coefficient based on Kendall's tau", JASA 1968).
// Successive values of one process correlate, and then carry less information than
// their number suggests. So the variance is that of [EffectiveSize] values, as in
// Hamed and Rao ("A modified Mann-Kendall trend test for autocorrelated data", Journal
// of Hydrology 1998), with Student's quantile for the remaining degrees of freedom.
// Values that are not finite are left out, with a warning.
func Slope(points []SeriesPoint, o Options) Estimate {
	kept := slices.DeleteFunc(slices.Clone(points), func(p SeriesPoint) bool { return !Finite(p.X) || !Finite(p.Y) })
	e := Estimate{Value: math.NaN(), Low: math.Inf(-1), High: math.Inf(1), SE: math.NaN(), Level: o.level(), Blocks: len(kept)}
	if lost := len(points) - len(kept); lost > 0 {
		e.warn(noteLostWindows, lost, len(points))
	}
	merged := merge(kept)
	slopes := pairSlopes(merged)
	if len(slopes) == 0 {
		e.warn(noteFewForSlope, len(kept))
		return e
	}
	e.Value = between(slopes, float64(len(slopes)-1)/2)
	if len(merged) < slopeLeast {
		e.warn(noteFewWindows, len(kept), slopeLeast)
		return e
	}
	n, pairs := float64(len(merged)), float64(len(slopes))
	effective := effectiveOf(residuals(merged, e.Value))
	e.DF = math.Max(1, effective-2)
	reach := tQuantile(1-(1-e.Level)/2, e.DF) * math.Sqrt(n*(n-1)*(2*n+5)/18*n/effective)
	low, high := (pairs-reach)/2-1, (pairs+reach)/2 // indexes of slopes, from 0
	if low < 0 || high > pairs-1 {
		e.warn(noteAlikeWindows, effective)
		return e
	}
	e.Low, e.High = between(slopes, low), between(slopes, high)
	e.SE = (e.High - e.Low) / 2 / tQuantile(1-(1-e.Level)/2, e.DF)
	return e
}

// merge reduces points to at most slopeMost by taking the median of neighbours, which
// preserves their correlation.
func merge(points []SeriesPoint) []SeriesPoint {
	each := (len(points) + slopeMost - 1) / slopeMost
	if each < 2 {
		return points
	}
	var out []SeriesPoint
	for group := range slices.Chunk(points, each) {
		x, y := make([]float64, len(group)), make([]float64, len(group))
		for i, p := range group {
			x[i], y[i] = p.X, p.Y
		}
		out = append(out, SeriesPoint{mean(x), Median(y)})
	}
	return out
}

// pairSlopes returns the slopes between all pairs of points, ascending.
func pairSlopes(points []SeriesPoint) []float64 {
	var out []float64
	for i, a := range points {
		for _, b := range points[i+1:] {
			if a.X != b.X {
				out = append(out, (b.Y-a.Y)/(b.X-a.X))
			}
		}
	}
	slices.Sort(out)
	return out
}

// between interpolates linearly between ascending values at a fractional index.
func between(sorted []float64, place float64) float64 {
	i := int(place)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return line(sorted[i], sorted[i+1], place-float64(i))
}

// residuals returns a series less its slope.
func residuals(points []SeriesPoint, slope float64) []float64 {
	out := make([]float64, len(points))
	for i, p := range points {
		out[i] = p.Y - slope*p.X
	}
	return out
}

// effectiveOf returns the number of independent values that carry as much information
// about a slope as these: the smaller of two estimates. Both use ranks, because an
// outlier hides the correlation of plain values. One assumes a first-order
// autoregressive series and corrects its lag-1 correlation for the bias of a fitted
// slope (by (2+4r)/n: Marriott and Pope, Biometrika 1954). The other adds up
// correlations for as long as two successive ones have a positive sum (Geyer,
// "Practical Markov chain Monte Carlo", Statistical Science 1992), and so detects
// waves longer than two values.
func effectiveOf(x []float64) float64 {
	n := len(x)
	r := ranks(x)
	_, sd := meanStdDev(r)
	if sd == 0 {
		return float64(n)
	}
	at := func(lag int) float64 { return autocorrelation(r, lag) }
	first := math.Min(0.99, (at(1)+2/float64(n))/(1-4/float64(n)))
	sum := 1.0
	for lag := 1; lag+1 < n; lag += 2 {
		two := at(lag) + at(lag+1)
		if two <= 0 {
			break
		}
		sum += 2 * two
	}
	return math.Min(EffectiveSize(int64(n), first), math.Max(1, float64(n)/math.Max(1, sum)))
}

// autocorrelation returns the autocovariance of a series at a lag, over the variance
// of the whole series.
func autocorrelation(x []float64, lag int) float64 {
	m := mean(x)
	var sum, square float64
	for i, v := range x {
		square += (v - m) * (v - m)
		if i >= lag {
			sum += (v - m) * (x[i-lag] - m)
		}
	}
	return sum / square
}

// ranks returns the ranks of values; equal values share theirs.
func ranks(x []float64) []float64 {
	sorted := slices.Sorted(slices.Values(x))
	out := make([]float64, len(x))
	for i, v := range x {
		below, _ := slices.BinarySearch(sorted, v)
		upto, _ := slices.BinarySearch(sorted, math.Nextafter(v, math.Inf(1)))
		out[i] = float64(below+upto+1) / 2
	}
	return out
}
