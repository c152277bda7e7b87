package stat

import "math"

// Reach is how far from the mean of some values the ends of its two-sided
// interval at a confidence level would lie, by Student's t, if there were n of
// them with the same spread; at fewer than their own number, half the interval
// that they have. It is infinite of fewer than two values.
func Reach(values []float64, n int, level float64) float64 {
	if len(values) < 2 {
		return math.Inf(1)
	}
	n = max(n, len(values))
	_, sd := meanStdDev(values)
	return tQuantile(1-(1-level)/2, float64(n-1)) * sd / math.Sqrt(float64(n))
}

// Average is the mean of at least one value, without an interval.
func Average(values []float64) float64 { return mean(values) }
