package stat

import (
	"math"
	"math/rand/v2"
	"slices"
)

const (
	// MinSegment is the number of values that a level needs on either side of a
	// change.
	MinSegment = 3
	// clipAt limits a value's distance from the median, in robust standard
	// deviations, so that a single outlier does not form a level.
	clipAt = 2.5
	// fewestOrders and mostOrders bound the number of permutations per test. In
	// between, the smallest possible p-value is a fifth of the error rate.
	fewestOrders, mostOrders = 9999, 399_999
)

// ordersFor returns the number of permutations needed to find a change at a rate.
func ordersFor(rate float64) int {
	if !(rate > 0) {
		return fewestOrders
	}
	return int(min(max(5/rate, fewestOrders), mostOrders))
}

// LeastSteps returns how many of n values must follow a change before it can be found
// at an error rate, which is the series' share of the total rate. Of the n over k
// ways to place k values, only two separate a clear change as well. The result is at
// least [MinSegment], or 0 if no change in n values can be found.
func LeastSteps(n int, rate float64) int {
	for k := MinSegment; 2*k <= n; k++ {
		if p := max(2/binomial(n, k), 1/float64(ordersFor(rate*oneStep)+1)); p/oneStep <= rate {
			return k
		}
	}
	return 0
}

// binomial returns the binomial coefficient, n over k.
func binomial(n, k int) float64 {
	out := 1.0
	for i := 1; i <= k; i++ {
		out *= float64(n-k+i) / float64(i)
	}
	return out
}

// AboveAll replaces +Inf, such as a percentile that is never reached, by a value far
// above all others. NaN stays.
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

// A Step is a position in a series where the level of its values changes.
type Step struct {
	// At is the index of the first value of the new level.
	At int
	// P is the p-value: the share of permutations of the same values that some
	// position separates as well.
	P float64
}

// Steps finds level changes in series that were measured together, such as figures of
// the same runs, in order of time. NaN marks a missing value. The probability that
// chance alone produces any step, in all series together, is at most alpha, provided
// the runs between steps are exchangeable. Slow drift violates that and looks like
// steps.
//
// For each series it takes logarithms if all values are positive, and clips values
// more than two and a half robust standard deviations from the median (Huber, "Robust
// estimation of a location parameter", 1964). It then finds the position that
// separates the values before and after it the most, relative to the standard error
// (the CUSUM of Page, Biometrika 1955, standardised). The p-value is the share of
// permutations that separate as well (Antoch and Huskova, "Permutation tests in
// change point analysis", Statistics & Probability Letters 2001). A fifth of the
// error rate is spent on levels that come and go, by the two positions that separate
// the values between them from the rest the most (as in circular binary segmentation
// of Olshen et al., Biostatistics 2004). Series share alpha by [Holm], with weights.
// The segments on either side of a step are searched the same way and share the error
// rate (E-divisive of Matteson and James, JASA 2014, and Hunter of Fleming et al.,
// ICPE 2023, search them without sharing it). The permutations come from a fixed
// seed: the same series give the same steps. Infinite values count as missing; see
// [AboveAll]. See [LeastSteps] for what can be found.
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

// A division splits values best: at one position, or at two that separate the values
// between them from the rest.
type division struct {
	places []int
	p      float64
}

// with lists the steps of a division of values that begin at index begin, and the
// steps inside its segments, which share an error rate.
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

// oneStep is the share of the error rate spent on single steps. The rest is spent on
// levels that come and go, which no single position separates.
const oneStep = 0.8

// divided returns the best division of values with its p-value, which is 1 if it
// certainly exceeds alpha. It tries as many permutations as finding a change at rate
// needs.
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

// shuffled compares the best division of scores with those of their permutations.
func shuffled(scores []float64, alpha float64, orders int, best func([]float64) ([]int, float64)) division {
	places, observed := best(scores)
	if !(observed > 0) {
		return division{p: 1}
	}
	scores = slices.Clone(scores)
	r := rand.New(rand.NewPCG(uint64(len(scores)), 2023))
	observed *= 1 - 1e-9 // permuted sums may differ by rounding
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

// inverses returns, for each position that may divide n values of unit variance, the
// inverse of the variance of the sum before it.
func inverses(n int) []float64 {
	out := make([]float64, n)
	for i := MinSegment; i <= n-MinSegment; i++ {
		out[i] = float64(n) / (float64(i) * float64(n-i))
	}
	return out
}

// divide finds the position that separates scores of mean 0 the most. apart is the
// squared separation in standard errors, for unit variance.
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

// setApart finds the two positions that separate the scores between them from the
// rest the most; see divide. It writes to sums.
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

// clipped returns the values' logarithms, or the values, as robust standard
// deviations from their median, clipped and centred to mean 0.
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

// robust returns the median of values and 1.4826 times their median absolute
// deviation, which is the standard deviation if they are normal. If more than half
// are equal, it uses the mean absolute deviation.
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
