package stat

import (
	"cmp"
	"slices"
)

// PValue returns the smallest error rate at which a claim holds, where holds
// reports whether it does with intervals of a confidence level. Because intervals
// are nested, it also holds at every lower level. The caller must ensure that one
// rule judges all levels. A claim that does not hold at the lowest level has 1.
func PValue(lowest float64, holds func(level float64) bool) float64 {
	if !holds(lowest) {
		return 1
	}
	low, high := 0.0, 1-lowest // low does not hold or is untested; high holds
	for range 40 {
		middle := (low + high) / 2
		if holds(1 - middle) {
			high = middle
		} else {
			low = middle
		}
	}
	return high
}

// Holm shares an error rate among claims, any of which may be false. It returns
// the rate at which each is judged: claims with p at or below their rate stand.
// The probability that chance lets any false claim stand is at most alpha, for
// any dependence between the claims. Weights (0 or more) set how the rate is
// shared; a claim that stands passes its share on to the others (Holm, "A simple
// sequentially rejective multiple test procedure", Scandinavian Journal of
// Statistics 1979, with weights as in its section 4).
func Holm(p, weights []float64, alpha float64) []float64 {
	order := make([]int, 0, len(p))
	var rest float64
	for i := range p {
		if weights[i] > 0 {
			order = append(order, i)
			rest += weights[i]
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p[a]/weights[a], p[b]/weights[b]) })
	out := make([]float64, len(p))
	stands := true
	for _, i := range order {
		out[i] = min(alpha, alpha*weights[i]/rest)
		if stands = stands && p[i] <= out[i]; stands {
			rest -= weights[i]
		}
	}
	return out
}
