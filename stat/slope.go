package stat

import (
	"math"
	"slices"
)

// A SeriesPoint is a value of a series and when it was measured.
type SeriesPoint struct{ X, Y float64 }

// How a slope is made.
const (
	slopeLeast = 6   // fewer values have no interval
	slopeMost  = 300 // more are merged, neighbours with neighbours
)

// Slope estimates how fast a series rises, in units of Y per unit of X: the median of
// the slopes between all pairs of values (Theil and Sen), which a third of the values
// may lie astray without moving much. The interval is that of Kendall's rank
// correlation (Sen, "Estimates of the regression coefficient based on Kendall's tau",
// JASA 1968). Successive values of one process resemble each other, and then tell less
// than their number: the variance is that of [EffectiveSize] values, as Hamed and Rao
// do ("A modified Mann-Kendall trend test for autocorrelated data", Journal of
// Hydrology 1998), with Student's quantile on the degrees of freedom that leaves.
// Values that are no numbers are left out, with a warning.
func Slope(points []SeriesPoint, o Options) Estimate {
	kept := slices.DeleteFunc(slices.Clone(points), func(p SeriesPoint) bool { return !Finite(p.X) || !Finite(p.Y) })
	e := Estimate{Value: math.NaN(), Low: math.Inf(-1), High: math.Inf(1), SE: math.NaN(), Level: o.level(), Blocks: len(kept),
		Method: "Theil and Sen's slope, for values that resemble their neighbours"}
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
	low, high := (pairs-reach)/2-1, (pairs+reach)/2 // places among the slopes, from 0
	if low < 0 || high > pairs-1 {
		e.warn(noteAlikeWindows, effective)
		return e
	}
	e.Low, e.High = between(slopes, low), between(slopes, high)
	e.SE = (e.High - e.Low) / 2 / tQuantile(1-(1-e.Level)/2, e.DF)
	return e
}

// merge makes at most slopeMost points of many: of neighbours the median, which is
// what they resemble each other in.
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

// pairSlopes are the slopes between all pairs of points, ascending.
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

// between is what stands at a place among ascending values, on the straight line
// between two of them.
func between(sorted []float64, place float64) float64 {
	i := int(place)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return line(sorted[i], sorted[i+1], place-float64(i))
}

// residuals are what is left of a series without its slope.
func residuals(points []SeriesPoint, slope float64) []float64 {
	out := make([]float64, len(points))
	for i, p := range points {
		out[i] = p.Y - slope*p.X
	}
	return out
}

// effectiveOf is how many independent values tell as much of a slope as these: the
// fewer by two accounts of how their ranks resemble each other, as a value that went
// astray hides that of the values themselves. One takes the series for a first-order
// autoregressive one, whose correlation at lag 1 a fitted slope makes look smaller
// than it is (by (2+4r)/n: Marriott and Pope, Biometrika 1954). The other adds up the
// correlations for as long as two successive ones come to more than nothing (Geyer,
// "Practical Markov chain Monte Carlo", Statistical Science 1992), and so sees waves
// that are longer than two values.
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

// autocorrelation of a series at a lag, over the variance of all of it.
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

// ranks of values; equal ones share theirs.
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
