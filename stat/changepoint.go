package stat

import (
	"math"
	"math/rand/v2"
	"slices"
)

const (
	// MinSegment is how many values a level needs on either side of a change.
	MinSegment = 3
	// clipAt is how many robust standard deviations from the median a value
	// counts at most, so that one that is far off is no level of its own.
	clipAt = 2.5
	// fewestOrders is how many orders of the values a change is held against at
	// least, mostOrders at most; in between it is as many as make the least p-value
	// that they can give a fifth of the rate that it must not exceed.
	fewestOrders, mostOrders = 9999, 399_999
)

// ordersFor is how many orders it takes to find a change at a rate.
func ordersFor(rate float64) int {
	if !(rate > 0) {
		return fewestOrders
	}
	return int(min(max(5/rate, fewestOrders), mostOrders))
}

// LeastSteps is how many of n values must lie after a change, at least, for it
// to be found at an error rate, the series' share of that of all: of all orders,
// n over that many, only two set a clear change apart as much. It is [MinSegment]
// or more; 0 if no change in n values can be found.
func LeastSteps(n int, rate float64) int {
	for k := MinSegment; 2*k <= n; k++ {
		if p := max(2/binomial(n, k), 1/float64(ordersFor(rate*oneStep)+1)); p/oneStep <= rate {
			return k
		}
	}
	return 0
}

// binomial is n over k.
func binomial(n, k int) float64 {
	out := 1.0
	for i := 1; i <= k; i++ {
		out *= float64(n-k+i) / float64(i)
	}
	return out
}

// AboveAll are values of which those that are infinite, as a percentile that is
// never reached is, lie far above all others; NaN stays.
func AboveAll(values []float64) []float64 {
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if Finite(v) {
			low, high = math.Min(low, v), math.Max(high, v)
		}
	}
	top := 1.0
	if Finite(high) {
		top = high + 10*math.Max(high-low, math.Abs(high)) + 1
	}
	out := slices.Clone(values)
	for i, v := range out {
		if math.IsInf(v, 1) {
			out[i] = top
		}
	}
	return out
}

// A Step is a place in a series of values where their level changes.
type Step struct {
	// At is the place of the first value of the new level.
	At int
	// P is the share of the orders of the same values in which some place sets
	// them apart as much.
	P float64
}

// Steps finds where levels change in series that were measured together, such
// as figures of the same runs, in the order of time; NaN is a value that is
// missing. Chance makes it find any step, in all series together, with a
// probability of at most alpha, if the runs between steps could as well have
// come in another order; a slow drift is no such world, and looks like steps.
//
// Of each series it takes logarithms, if all values lie above zero, clips what is
// more than two and a half robust standard deviations from the median (Huber, "Robust
// estimation of a location parameter", 1964), and finds the place that sets the
// values before and after it farthest apart, for its standard error (the CUSUM
// of Page, Biometrika 1955, standardised). How often orders of the same values do
// that as well is its p-value (Antoch and Huskova, "Permutation tests in change
// point analysis", Statistics & Probability Letters 2001). A fifth of the error
// rate looks for a level that comes and goes, by the two places that set the
// values between them farthest apart from the others (as circular binary
// segmentation of Olshen et al., Biostatistics 2004). Series share alpha by
// [Holm], with weights. Where there is a step, the parts are searched likewise,
// and share the error rate (as E-divisive of Matteson and James, JASA 2014, and
// Hunter of Fleming et al., ICPE 2023, do without sharing it). The orders come
// from a fixed seed: the same series give the same steps.
// What is infinite counts as missing: see [AboveAll]. What could be found at all
// [LeastSteps] says.
func Steps(series [][]float64, weights []float64, alpha float64) [][]Step {
	out := make([][]Step, len(series))
	places, first, p := make([][]int, len(series)), make([]division, len(series)), make([]float64, len(series))
	var all float64
	for _, w := range weights {
		all += w
	}
	for i, values := range series {
		for at, v := range values {
			if Finite(v) {
				places[i] = append(places[i], at)
			}
		}
		first[i] = divided(pick(values, places[i]), alpha, alpha*weights[i]/all)
		p[i] = first[i].p
	}
	for i, rate := range Holm(p, weights, alpha) {
		if p[i] > rate {
			continue
		}
		values := pick(series[i], places[i])
		for _, s := range first[i].with(values, 0, alpha*weights[i]/all) {
			out[i] = append(out[i], Step{places[i][s.At], s.P})
		}
	}
	return out
}

func pick(values []float64, places []int) []float64 {
	out := make([]float64, len(places))
	for i, at := range places {
		out[i] = values[at]
	}
	return out
}

// A division is what divides values best: a place, or two of which those between
// them are set apart from the others.
type division struct {
	places []int
	p      float64
}

// with lists the steps of a division of values that begin at a place, and those
// inside its segments, which share an error rate.
func (d division) with(values []float64, begin int, rate float64) []Step {
	var out []Step
	from := 0
	for i := range len(d.places) + 1 {
		to := len(values)
		if i < len(d.places) {
			to = d.places[i]
		}
		share := rate / float64(len(d.places)+1)
		if inside := divided(values[from:to], share, share); inside.p <= share {
			out = append(out, inside.with(values[from:to], begin+from, share)...)
		}
		if i < len(d.places) {
			out = append(out, Step{begin + to, d.p})
		}
		from = to
	}
	return out
}

// oneStep is the share of the error rate that looks for one step; the rest looks
// for a level that comes and goes, which no single place sets apart.
const oneStep = 0.8

// divided is the best division of values, with its p-value, or 1 where that is
// above alpha for certain, among as many orders as find a change at a rate.
func divided(values []float64, alpha, rate float64) division {
	if len(values) < 2*MinSegment {
		return division{p: 1}
	}
	scores, inverse := clipped(values), inverses(len(values))
	d := shuffled(scores, alpha*oneStep, ordersFor(rate*oneStep), func(scores []float64) ([]int, float64) { return divide(scores, inverse) })
	if d.p /= oneStep; d.p <= alpha || len(values) < 3*MinSegment {
		return d
	}
	sums := make([]float64, len(values)+1)
	d = shuffled(scores, alpha*(1-oneStep), ordersFor(rate*(1-oneStep)), func(scores []float64) ([]int, float64) { return setApart(scores, inverse, sums) })
	d.p = min(1, d.p/(1-oneStep))
	return d
}

// shuffled holds how far the best division sets scores apart against other
// orders of them.
func shuffled(scores []float64, alpha float64, orders int, best func([]float64) ([]int, float64)) division {
	places, observed := best(scores)
	if !(observed > 0) {
		return division{p: 1}
	}
	scores = slices.Clone(scores)
	r := rand.New(rand.NewPCG(uint64(len(scores)), 2023))
	observed *= 1 - 1e-9 // the same values in another order may differ by rounding
	as := 1
	for range orders {
		for i := len(scores) - 1; i > 0; i-- {
			j := r.IntN(i + 1)
			scores[i], scores[j] = scores[j], scores[i]
		}
		if _, d := best(scores); d >= observed {
			if as++; float64(as) > alpha*float64(orders+1) {
				return division{p: 1}
			}
		}
	}
	return division{places, float64(as) / float64(orders+1)}
}

// inverses are, for each place that may divide n values of unit variance, one
// over the variance of the sum before it.
func inverses(n int) []float64 {
	out := make([]float64, n)
	for i := MinSegment; i <= n-MinSegment; i++ {
		out[i] = float64(n) / (float64(i) * float64(n-i))
	}
	return out
}

// divide finds the place that sets scores with mean 0 before and after it
// farthest apart, and the square of by how many standard errors, of unit
// variance, that is.
func divide(scores, inverse []float64) (places []int, apart float64) {
	var sum float64
	at := 0
	for i, v := range scores {
		if d := sum * sum * inverse[i]; d > apart {
			at, apart = i, d
		}
		sum += v
	}
	return []int{at}, apart
}

// setApart finds the two places of which the scores between them are farthest
// from the others, likewise. It writes to sums.
func setApart(scores, inverse, sums []float64) (places []int, apart float64) {
	n := len(scores)
	for i, v := range scores {
		sums[i+1] = sums[i] + v
	}
	var from, to int
	for i := MinSegment; i <= n-2*MinSegment; i++ {
		for j := i + MinSegment; j <= n-MinSegment; j++ {
			sum := sums[j] - sums[i]
			if d := sum * sum * inverse[j-i]; d > apart {
				from, to, apart = i, j, d
			}
		}
	}
	return []int{from, to}, apart
}

// clipped are the values' logarithms, or values, in robust standard deviations
// from their median, clipped, with mean 0.
func clipped(values []float64) []float64 {
	x := logarithms(values)
	if x == nil {
		x = slices.Clone(values)
	}
	median, scale := robust(x)
	if scale == 0 {
		return make([]float64, len(x))
	}
	for i, v := range x {
		x[i] = max(-clipAt, min(clipAt, (v-median)/scale))
	}
	m := mean(x)
	for i := range x {
		x[i] -= m
	}
	return x
}

// robust is the median of values, and 1.4826 times their median absolute
// deviation from it, which is the standard deviation of normal ones; if more
// than half are the same, their mean absolute deviation.
func robust(x []float64) (median, scale float64) {
	median = Median(x)
	dev := make([]float64, len(x))
	for i, v := range x {
		dev[i] = math.Abs(v - median)
	}
	if scale = 1.4826 * Median(dev); scale == 0 {
		scale = 1.2533 * mean(dev)
	}
	return median, scale
}
