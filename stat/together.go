package stat

import (
	"cmp"
	"slices"
)

// PValue is the smallest error rate at which a claim holds, where holds says
// whether it does by intervals of a confidence level. As intervals are nested, it
// holds at every lower level too, if one rule judges them at all levels, to which
// the caller must see. Claims that do not hold at the lowest
// level that is asked for have 1.
func PValue(lowest float64, holds func(level float64) bool) float64 {
	if !holds(lowest) {
		return 1
	}
	low, high := 0.0, 1-lowest // does not hold, or nobody asked; holds
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

// Holm shares an error rate among claims of which each may be false: it
// returns the rate at which each is judged, so that those with p at or below
// theirs stand, and chance makes any false one stand with a probability of at
// most alpha, however the claims depend on each other. Weights (0 or more) say
// how the rate is shared; what a claim that stands had passes on to the others
// (Holm, "A simple sequentially rejective multiple test procedure",
// Scandinavian Journal of Statistics 1979, with weights as in its section 4).
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
