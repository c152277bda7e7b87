package load

import (
	"math"
	"slices"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/meshtrial/meshtrial/record"
)

// Bounds of every histogram: nanoseconds, three significant digits, so that a recorded value
// has an error of at most 0.1%.
const (
	histLowest  = 1
	histHighest = 60_000_000_000
	histDigits  = 3
)

// NewHistogram returns an empty histogram with the bounds of all histograms of this package:
// 1 ns to 60 s, three significant digits.
func NewHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(histLowest, histHighest, histDigits)
}

func newPacked() *hdrhistogram.PackedHistogram {
	return hdrhistogram.NewPacked(histLowest, histHighest, histDigits)
}

// durations holds the values of one interval in nanoseconds. It stores the first ones
// unchanged and sorts them into buckets at the end of the interval. A histogram takes 220
// KB: to read and clear four of them would take longer than everything that a slow generator
// sends in an interval, and evict its caches.
type durations struct {
	few  []int64
	many *hdrhistogram.Histogram // values beyond the capacity of few
}

// fewDurations is the capacity of few.
const fewDurations = 1024

func newDurations() durations {
	return durations{few: make([]int64, 0, fewDurations), many: NewHistogram()}
}

// add adds a value within the bounds.
func (d *durations) add(ns int64) {
	if len(d.few) < cap(d.few) {
		d.few = append(d.few, ns)
		return
	}
	_ = d.many.RecordValue(ns) // in range, so it cannot fail
}

// merge adds all values of another.
func (d *durations) merge(e *durations) {
	for _, ns := range e.few {
		d.add(ns)
	}
	if e.many.TotalCount() > 0 {
		d.many.Merge(e.many)
	}
}

// pack returns a histogram of all values.
func (d *durations) pack() *hdrhistogram.PackedHistogram {
	p := newPacked()
	if d.many.TotalCount() == 0 {
		slices.Sort(d.few) // appends to the last bucket or a new one
		for _, ns := range d.few {
			_ = p.RecordValue(ns)
		}
	} else {
		for _, ns := range d.few {
			_ = d.many.RecordValue(ns)
		}
		d.few = d.few[:0]
		p.MergeFrom(d.many)
	}
	p.Compact()
	return p
}

func (d *durations) reset() {
	d.few = d.few[:0]
	if d.many.TotalCount() > 0 {
		d.many.Reset()
	}
}

// quantile returns the value in nanoseconds at percentile p (0..100): the middle of the
// histogram's bucket, with an error of at most 0.05%.
func quantile(h interface {
	TotalCount() int64
	ValueAtPercentile(float64) int64
}, p float64) float64 {
	if h.TotalCount() == 0 {
		return 0
	}
	return middle(h.ValueAtPercentile(p))
}

// middle returns the middle of the bucket whose highest value is given.
func middle(high int64) float64 {
	width := int64(1)
	for v := high; v >= 2048; v >>= 1 {
		width <<= 1
	}
	return float64(high) - float64(width-1)/2
}

// Summarise returns a histogram's summary in microseconds.
func Summarise(h *hdrhistogram.Histogram) record.Latency {
	if h == nil || h.TotalCount() == 0 {
		return record.Latency{}
	}
	return record.Latency{Min: float64(h.Min()) / 1e3, Quantiles: record.QuantilesOf(func(q float64) float64 { return quantile(h, 100*q) / 1e3 }), Mean: h.Mean() / 1e3}
}

// MedianNS is the interval's median latency by intended time, in nanoseconds;
// NaN if nothing completed.
func (iv *Interval) MedianNS() float64 {
	if iv.Intended.TotalCount() == 0 {
		return math.NaN()
	}
	return middle(iv.Intended.ValueAtPercentile(50))
}
