package stat

import (
	"math"
	"sort"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Counts is a distribution as counts by value: a trial's latencies, and the
// number of failed requests, which have none. It is immutable; the zero value is
// an empty distribution.
type Counts struct {
	values []float64 // ascending
	upto   []int64   // number of values at values[i] or below
	lost   int64     // number beyond all values
}

// WithLost adds n requests that failed or did not end. Their latency is
// infinite, so they lie beyond every finite quantile.
func (c Counts) WithLost(n int64) Counts {
	c.lost += max(0, n)
	return c
}

// FromHistogram converts the counts of an HdrHistogram, each at the middle of
// its bucket, multiplied by unit: 1e-3 turns nanoseconds into microseconds. A
// nil histogram is empty.
func FromHistogram(h *hdrhistogram.Histogram, unit float64) Counts {
	var c Counts
	if h == nil {
		return c
	}
	var sum int64
	for _, bar := range h.Distribution() {
		if bar.Count <= 0 {
			continue
		}
		sum += bar.Count
		middle := float64(bar.From) + float64(bar.To-bar.From)/2
		c.values = append(c.values, middle*unit)
		c.upto = append(c.upto, sum)
	}
	return c
}

// FromSamples counts plain values. It leaves out values that are not finite.
func FromSamples(samples []float64) Counts {
	s, _ := keepFinite(samples)
	sort.Float64s(s)
	var c Counts
	for i, v := range s {
		if i > 0 && v == s[i-1] {
			c.upto[len(c.upto)-1]++
			continue
		}
		c.values = append(c.values, v)
		c.upto = append(c.upto, int64(i+1))
	}
	return c
}

// Merge returns the combined distribution of the parts.
func Merge(parts ...Counts) Counts {
	switch len(parts) {
	case 0:
		return Counts{}
	case 1:
		return parts[0]
	case 2:
		return merged(parts[0], parts[1])
	}
	half := len(parts) / 2
	return merged(Merge(parts[:half]...), Merge(parts[half:]...))
}

func merged(a, b Counts) Counts {
	c := Counts{
		values: make([]float64, 0, len(a.values)+len(b.values)), upto: make([]int64, 0, len(a.values)+len(b.values)),
		lost: a.lost + b.lost,
	}
	var i, j int
	var upto int64
	for i < len(a.values) || j < len(b.values) {
		v := math.Inf(1)
		if i < len(a.values) {
			v = a.values[i]
		}
		if j < len(b.values) {
			v = math.Min(v, b.values[j])
		}
		if i < len(a.values) && a.values[i] == v {
			upto += a.count(i)
			i++
		}
		if j < len(b.values) && b.values[j] == v {
			upto += b.count(j)
			j++
		}
		c.values, c.upto = append(c.values, v), append(c.upto, upto)
	}
	return c
}

func (c Counts) count(i int) int64 {
	if i == 0 {
		return c.upto[0]
	}
	return c.upto[i] - c.upto[i-1]
}

// Total returns the number of values, including failed requests.
func (c Counts) Total() int64 { return c.finite() + c.lost }

// Lost returns the number of requests that have no latency because they failed.
func (c Counts) Lost() int64 { return c.lost }

// finite returns the number of finite values.
func (c Counts) finite() int64 {
	if len(c.upto) == 0 {
		return 0
	}
	return c.upto[len(c.upto)-1]
}

// below returns the number of values at v or below.
func (c Counts) below(v float64) int64 {
	i := sort.Search(len(c.values), func(i int) bool { return c.values[i] > v })
	if i == 0 {
		return 0
	}
	return c.upto[i-1]
}

// Mean returns the mean of the finite values, NaN if there are none.
func (c Counts) Mean() float64 {
	if c.finite() == 0 {
		return math.NaN()
	}
	var sum float64
	for i, v := range c.values {
		sum += v * float64(c.count(i))
	}
	return sum / float64(c.finite())
}

// Quantile returns the q-quantile, q from 0 to 1; NaN if empty, +Inf if it lies
// among failed requests. It is approximately median-unbiased for any
// distribution (type 8 of Hyndman and Fan, "Sample quantiles in statistical
// packages", American Statistician 1996).
func (c Counts) Quantile(q float64) float64 {
	n := float64(c.Total())
	if n == 0 || math.IsNaN(q) {
		return math.NaN()
	}
	return c.between(rankOf(q, n))
}

// rankOf returns the rank of the q-quantile among n ordered values, from 1.
func rankOf(q, n float64) float64 { return q*(n+1.0/3) + 1.0/3 }

// between returns the value at a fractional rank by linear interpolation.
func (c Counts) between(place float64) float64 {
	low := math.Floor(place)
	a, b := c.at(int64(low)), c.at(int64(low)+1)
	return line(a, b, place-low)
}

// line interpolates linearly: the value at a share of the way from a to b.
func line(a, b, share float64) float64 {
	if share == 0 || a == b {
		return a
	}
	return a + (b-a)*share
}

// at returns the value of the given rank, from 1. Ranks beyond either end give
// the end.
func (c Counts) at(rank int64) float64 {
	i := sort.Search(len(c.upto), func(i int) bool { return c.upto[i] >= rank })
	if i == len(c.values) && c.lost > 0 {
		return math.Inf(1)
	}
	return c.values[min(i, len(c.values)-1)]
}

// A Point is a point of a curve.
type Point struct{ X, Y float64 }

// PercentileCurve returns the percentile curve: X is the percentile from 0 to
// 100, Y the value. Points are dense in the tail, where latency matters: steps
// points for each halving of the distance to 100%, as in HdrHistogram's plots,
// up to the percentile of one value in Total.
func (c Counts) PercentileCurve(steps int) []Point {
	total := float64(c.Total())
	if total == 0 || steps < 1 {
		return nil
	}
	var curve []Point
	for distance := 1.0; distance*total >= 1; distance /= 2 {
		for i := range steps {
			q := 1 - distance*(1-float64(i)/float64(2*steps))
			v := c.Quantile(q)
			if (1-q)*total < 1 {
				break
			}
			if math.IsInf(v, 1) {
				return curve // failed requests from here on
			}
			curve = append(curve, Point{q * 100, v})
		}
	}
	if c.lost > 0 {
		return curve
	}
	return append(curve, Point{100, c.values[len(c.values)-1]})
}

// CDF returns the cumulative distribution: X is the value, Y the share of values
// at X or below, thinned to about max points evenly spaced in Y, with both ends
// kept. Failed requests have no value, so the curve then ends below 1.
func (c Counts) CDF(max int) []Point {
	total := float64(c.Total())
	if total == 0 || max < 2 {
		return nil
	}
	var curve []Point
	last := math.Inf(-1)
	for i, v := range c.values {
		y := float64(c.upto[i]) / total
		if i == 0 || i == len(c.values)-1 || y-last >= 1/float64(max-1) {
			curve = append(curve, Point{v, y})
			last = y
		}
	}
	return curve
}
