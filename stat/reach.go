package stat

import "math"

// Reach returns the half-width of a two-sided Student's t interval for the mean
// at a confidence level, if there were n values with the same spread; for n
// below len(values), the half-width of the given values. It is infinite for
// fewer than two values.
func Reach(values []float64, n int, level float64) float64 {
	if len(values) < 2 {
		return math.Inf(1)
	}
	n = max(n, len(values))
	_, sd := meanStdDev(values)
	return tQuantile(1-(1-level)/2, float64(n-1)) * sd / math.Sqrt(float64(n))
}

// Average returns the mean of at least one value, without an interval.
func Average(values []float64) float64 { return mean(values) }
