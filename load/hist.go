package load

import (
	"math"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/meshtrial/meshtrial/record"
)

// Bounds of every histogram: nanoseconds, three significant digits, so that
// a recorded value is known within 0.1%.
const (
	histLowest  = 1
	histHighest = 60_000_000_000
	histDigits  = 3
)

// NewHistogram returns an empty histogram of the bounds that all of this
// package's histograms have: 1 ns to 60 s, three significant digits.
func NewHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(histLowest, histHighest, histDigits)
}

func newPacked() *hdrhistogram.PackedHistogram {
	return hdrhistogram.NewPacked(histLowest, histHighest, histDigits)
}

// quantile returns the value in nanoseconds at percentile p (0..100): the
// middle of the histogram's bucket, which is off by at most 0.05%.
func quantile(h *hdrhistogram.Histogram, p float64) float64 {
	if h.TotalCount() == 0 {
		return 0
	}
	high := h.ValueAtPercentile(p)
	return middle(high)
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
	us := func(ns float64) float64 { return ns / 1e3 }
	return record.Latency{
		Min:  us(float64(h.Min())),
		P50:  us(quantile(h, 50)),
		P90:  us(quantile(h, 90)),
		P99:  us(quantile(h, 99)),
		P999: us(quantile(h, 99.9)),
		Max:  us(middle(h.Max())),
		Mean: us(h.Mean()),
	}
}

func summariseLag(h *hdrhistogram.Histogram) record.Lag {
	if h == nil || h.TotalCount() == 0 {
		return record.Lag{}
	}
	return record.Lag{P50: quantile(h, 50) / 1e3, P90: quantile(h, 90) / 1e3, P99: quantile(h, 99) / 1e3, P999: quantile(h, 99.9) / 1e3,
		Max: middle(h.Max()) / 1e3, Mean: h.Mean() / 1e3}
}

// MedianNS is the interval's median latency by intended time, in nanoseconds;
// NaN if nothing completed.
func (iv *Interval) MedianNS() float64 {
	if iv.Intended.TotalCount() == 0 {
		return math.NaN()
	}
	return middle(iv.Intended.ValueAtPercentile(50))
}
