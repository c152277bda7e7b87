package stat

import (
	"math"
	"math/rand/v2"
	"sort"
)

// A hierarchy is blocks of trials of requests, resampled the way they came
// about: draw a block, then draw the requests of its trials anew.
type hierarchy struct {
	value []float64 // each block's statistic as measured
	trial []redraw
	bias  []float64 // by how much redrawing a block's requests shifts its statistic
}

// redraw draws one block's statistic again.
type redraw func(r *rand.Rand) float64

func (h *hierarchy) add(b QuantileBlock, q, value float64) {
	test := newRequantile(b.Test, q)
	var base []requantile
	for _, c := range b.Base {
		if c.Total() > 0 {
			base = append(base, newRequantile(c, q))
		}
	}
	h.value = append(h.value, value)
	h.bias = append(h.bias, 0)
	h.trial = append(h.trial, func(r *rand.Rand) float64 {
		var sum float64
		for _, c := range base {
			sum += c.draw(r)
		}
		return test.draw(r) - sum/float64(len(base))
	})
}

func (o Options) rand(stream uint64) *rand.Rand {
	return rand.New(rand.NewPCG(o.Seed, stream))
}

// center learns how redrawing shifts each block, so that resampling keeps
// each block where it was measured, and returns the mean variance that
// redrawing alone gives a block.
func (h *hierarchy) center(o Options) (variance float64) {
	const draws = 200
	r := o.rand(1)
	x := make([]float64, draws)
	for i, again := range h.trial {
		for j := range x {
			x[j] = again(r)
		}
		m, sd := meanStdDev(x)
		h.bias[i] = m - h.value[i]
		variance += sd * sd / float64(len(h.trial))
	}
	return variance
}

// studentized returns the quantiles probs of (resampled mean - mean) /
// resampled standard error: the bootstrap-t of Efron and Tibshirani, chapter
// 12.5.
func (h *hierarchy) studentized(o Options, probs ...float64) []float64 {
	r := o.rand(2)
	n := len(h.value)
	center := mean(h.value)
	t := make([]float64, 0, o.resamples())
	x := make([]float64, n)
	for range o.resamples() {
		for i := range x {
			b := r.IntN(n)
			x[i] = h.trial[b](r) - h.bias[b]
		}
		m, sd := meanStdDev(x)
		if sd > 0 {
			t = append(t, (m-center)/(sd/math.Sqrt(float64(n))))
		}
	}
	sort.Float64s(t)
	out := make([]float64, len(probs))
	for i, p := range probs {
		out[i] = sortedQuantile(t, p)
	}
	return out
}

// sortedQuantile is the type 7 quantile of ascending values, NaN if none.
func sortedQuantile(s []float64, p float64) float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	place := p * float64(len(s)-1)
	i := min(int(place), len(s)-1)
	if i+1 == len(s) {
		return s[i]
	}
	return s[i] + (s[i+1]-s[i])*(place-float64(i))
}

// A requantile draws what the q-quantile of a trial might have been, had its
// requests been drawn again: the bootstrap of a quantile without drawing
// every request. The rank-k value of n resampled requests is the sample's
// inverse distribution at a Beta(k, n-k+1) variate, exactly; k between ranks
// follows Hutson, "Calculating nonparametric confidence intervals for
// quantiles using fractional order statistics", J. Applied Statistics 1999.
type requantile struct {
	counts Counts
	rank   float64
	n      float64
}

func newRequantile(c Counts, q float64) requantile {
	n := float64(c.Total())
	return requantile{c, math.Max(1, math.Min(rankOf(q, n), n)), n}
}

func (q requantile) draw(r *rand.Rand) float64 {
	a, b := gamma(r, q.rank), gamma(r, q.n-q.rank+1)
	return q.counts.between(a/(a+b)*q.n + 0.5)
}

// gamma draws a Gamma(shape, 1) variate, shape at least 1: Wilson and
// Hilferty's cube for large shapes (its error vanishes there), Marsaglia and
// Tsang's rejection (ACM TOMS 2000) for small ones.
func gamma(r *rand.Rand, shape float64) float64 {
	if shape > 200 {
		c := 1 - 1/(9*shape) + r.NormFloat64()/(3*math.Sqrt(shape))
		return shape * c * c * c
	}
	d := shape - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		z := r.NormFloat64()
		v := 1 + c*z
		if v <= 0 {
			continue
		}
		v = v * v * v
		if math.Log(1-r.Float64()) < 0.5*z*z+d-d*v+d*math.Log(v) {
			return d * v
		}
	}
}
