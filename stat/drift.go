package stat

import "math"

// Drift is how far a series moves from its first half to its second.
type Drift struct {
	First, Second float64 // means of the halves
	// SE is the standard error of their difference.
	SE float64
	N  int // values
}

// DriftOf compares the halves of a series whose values are of equal stretches of
// time; the middle one of an odd number is left out, and so are values that are no
// numbers. ok is false with fewer than two values in a half.
//
// The error comes from the scatter within the halves or from that of successive
// differences (von Neumann), whichever is larger: values that go up and down
// together make the first, and noise the second. Of a series that drifts the first
// has some of the drift in it, which only makes the judgement milder.
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

// successive is the variance of a series by its successive differences, which a
// trend hardly enters (von Neumann, Annals of Mathematical Statistics 1941).
func successive(x []float64) float64 {
	var sum float64
	for i := 1; i < len(x); i++ {
		sum += (x[i] - x[i-1]) * (x[i] - x[i-1])
	}
	return sum / float64(2*(len(x)-1))
}

// Change is how far the second half lies above the first.
func (d Drift) Change() float64 { return d.Second - d.First }

// Beyond is how much of a change, away from what is expected of it, noise does not
// explain: the change less two standard errors, and 0 if it is less than those.
func (d Drift) Beyond(expected float64) float64 {
	return math.Max(0, math.Abs(d.Change()-expected)-2*d.SE)
}
