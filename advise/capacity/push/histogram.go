package push

import "math"

// Histogram counts times by their size, to within 0.8%.
type Histogram struct {
	counts []float64
	total  float64
	sum    float64
	max    float64
}

// Buckets are 64 to each doubling, from a microsecond on; what is shorter is
// in the first.
const (
	subBuckets = 64
	least      = 1e-6
)

// Add counts a time of some seconds, weight times.
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

// Merge adds what another has, each of it times as often.
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

// Total is how many were counted.
func (h *Histogram) Total() float64 { return h.total }

// Mean of what was counted; NaN of nothing.
func (h *Histogram) Mean() float64 { return h.sum / h.total }

// Max of what was counted; 0 of nothing.
func (h *Histogram) Max() float64 { return h.max }

// Quantile of what was counted, 0 to 1; NaN of nothing. Between two values that it divides
// exactly it lies in the middle, as the median of an even number does: proxies take turns in
// groups, and a quantile often lies between two of these.
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

// value is that of what a bucket counts.
func (h *Histogram) value(i int) float64 {
	if i == 0 {
		return math.Min(least, h.max)
	}
	return math.Min(least*math.Exp2((float64(i)-0.5)/subBuckets), h.max)
}
