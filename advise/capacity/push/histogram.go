package push

import "math"

// Histogram counts durations, accurate to 0.8%.
type Histogram struct {
	counts []float64
	total  float64
	sum    float64
	max    float64
}

// There are 64 buckets per doubling, starting at a microsecond; the first bucket holds
// shorter times.
const (
	subBuckets = 64
	least      = 1e-6
)

// Add counts a duration with a weight.
func (h *Histogram) Add(seconds, weight float64) {
	i := 0
	if seconds > least {
		i = 1 + int(math.Log2(seconds/least)*subBuckets)
	}
	for len(h.counts) <= i {
		h.counts = append(h.counts, make([]float64, i+1-len(h.counts))...)
	}
	h.counts[i] += weight
	h.total += weight
	h.sum += seconds * weight
	h.max = math.Max(h.max, seconds)
}

// Merge adds another histogram's counts, multiplied by times.
func (h *Histogram) Merge(o *Histogram, times float64) {
	if n := len(o.counts) - len(h.counts); n > 0 {
		h.counts = append(h.counts, make([]float64, n)...)
	}
	for i, c := range o.counts {
		h.counts[i] += c * times
	}
	h.total += o.total * times
	h.sum += o.sum * times
	h.max = math.Max(h.max, o.max)
}

// Total returns the number of counted durations.
func (h *Histogram) Total() float64 { return h.total }

// Mean returns the mean, or NaN if nothing was counted.
func (h *Histogram) Mean() float64 { return h.sum / h.total }

// Max returns the maximum, or 0 if nothing was counted.
func (h *Histogram) Max() float64 { return h.max }

// Quantile returns a quantile, 0 to 1, or NaN if nothing was counted. If the quantile falls
// exactly between two values, it returns their midpoint, like the median of an even number
// of values: proxies take turns in groups, and a quantile often lies between two groups.
func (h *Histogram) Quantile(q float64) float64 {
	if !(h.total > 0) {
		return math.NaN()
	}
	rank, seen, below := q*h.total, 0.0, math.NaN()
	slack := 1e-9 * h.total
	for i, c := range h.counts {
		if seen += c; c == 0 || seen < rank-slack {
			continue
		}
		v := h.value(i)
		switch {
		case !math.IsNaN(below):
			return (below + v) / 2
		case seen > rank+slack || q == 0 || q == 1:
			return v
		}
		below = v
	}
	return h.max
}

// value returns the duration that a bucket stands for.
func (h *Histogram) value(i int) float64 {
	if i == 0 {
		return math.Min(least, h.max)
	}
	return math.Min(least*math.Exp2((float64(i)-0.5)/subBuckets), h.max)
}
