package stat

import "sort"

// mean returns the arithmetic mean of at least one value.
func mean(x []float64) float64 {
	var sum float64
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

// Median returns the middle value, or the mean of the two middle ones, of at
// least one value. It does not modify x.
func Median(x []float64) float64 {
	s := append([]float64(nil), x...)
	sort.Float64s(s)
	n := len(s)
	return (s[(n-1)/2] + s[n/2]) / 2
}

// MedianOf returns the median of a number that each of at least one item has.
func MedianOf[T any](all []T, number func(T) float64) float64 {
	values := make([]float64, len(all))
	for i, v := range all {
		values[i] = number(v)
	}
	return Median(values)
}
