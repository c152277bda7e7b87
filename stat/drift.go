package stat

import "math"

// Drift describes how far a series moves from its first half to its second.
type Drift struct {
	First, Second float64 // means of the halves
	// SE is the standard error of the difference of the halves.
	SE float64
	N  int // number of values
}

// DriftOf compares the halves of a series of equally long intervals. It leaves out
// values that are not finite, and the middle one of an odd number. ok is false
// with fewer than two values in a half.
//
// The error comes from the scatter within the halves or from successive
// differences (von Neumann), whichever is larger: correlated fluctuations increase
// the first, noise the second. In a drifting series the first includes some of the
// drift, which only makes the judgement more lenient.
func DriftOf(series []float64) (d Drift, ok bool) {
	var x []float64
	for _, v := range series {
		if Finite(v) {
			x = append(x, v)
		}
	}
	n, half := len(x), len(x)/2
	if half < 2 {
		return d, false
	}
	first, second := x[:half], x[n-half:]
	d = Drift{N: n}
	var sd1, sd2 float64
	d.First, sd1 = meanStdDev(first)
	d.Second, sd2 = meanStdDev(second)
	variance := math.Max((sd1*sd1+sd2*sd2)/2, successive(x))
	d.SE = math.Sqrt(2 * variance / float64(half))
	return d, true
}

// successive estimates the variance of a series from successive differences, which
// a trend hardly affects (von Neumann, Annals of Mathematical Statistics 1941).
func successive(x []float64) float64 {
	var sum float64
	for i := 1; i < len(x); i++ {
		sum += (x[i] - x[i-1]) * (x[i] - x[i-1])
	}
	return sum / float64(2*(len(x)-1))
}

// Change returns the mean of the second half less that of the first.
func (d Drift) Change() float64 { return d.Second - d.First }

// Beyond returns the part of a change, relative to the expected change, that noise
// does not explain: the deviation less two standard errors, at least 0.
func (d Drift) Beyond(expected float64) float64 {
	return math.Max(0, math.Abs(d.Change()-expected)-2*d.SE)
}
