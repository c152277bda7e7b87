package xds

import (
	"math"
	"math/bits"
	"slices"
	"sync/atomic"
)

// histogram counts nanoseconds in buckets 1/16 wide, from many goroutines.
type histogram struct {
	buckets [64 * 16]atomic.Int64
	max     atomic.Int64
}

func bucketOf(ns int64) int {
	if ns < 16 {
		return int(max(ns, 0))
	}
	e := bits.Len64(uint64(ns)) - 5
	return 16*e + int(uint64(ns)>>e)
}

// upper is the largest value of a bucket.
func upper(bucket int) int64 {
	if bucket < 32 {
		return int64(bucket)
	}
	e := bucket/16 - 1
	return (int64(bucket%16)+17)<<e - 1
}

func (h *histogram) add(ns int64) {
	h.buckets[bucketOf(ns)].Add(1)
	for {
		old := h.max.Load()
		if ns <= old || h.max.CompareAndSwap(old, ns) {
			return
		}
	}
}

// take returns the counts and the maximum, and resets them if reset is set.
func (h *histogram) take(reset bool) counts {
	var out counts
	for i := range h.buckets {
		if reset {
			out.buckets[i] = h.buckets[i].Swap(0)
		} else {
			out.buckets[i] = h.buckets[i].Load()
		}
		out.total += out.buckets[i]
	}
	if reset {
		out.max = h.max.Swap(0)
	} else {
		out.max = h.max.Load()
	}
	return out
}

type counts struct {
	buckets [64 * 16]int64
	total   int64
	max     int64
}

// quantile returns a quantile in microseconds, 0 if nothing was counted.
func (c *counts) quantile(q float64) float64 {
	if c.total == 0 {
		return 0
	}
	rank := int64(q*float64(c.total-1)) + 1
	for i, n := range c.buckets {
		if rank -= n; rank <= 0 {
			return float64(min(upper(i), c.max)) / 1e3
		}
	}
	return float64(c.max) / 1e3
}

// short returns the counts without trailing zeros.
func (c *counts) short() []int64 {
	n := len(c.buckets)
	for n > 0 && c.buckets[n-1] == 0 {
		n--
	}
	return slices.Clone(c.buckets[:n])
}

// add adds counts in the form of short, with their largest value in microseconds.
func (c *counts) add(short []int64, maxUS float64) {
	for i, n := range short[:min(len(short), len(c.buckets))] {
		c.buckets[i] += n
		c.total += n
	}
	c.max = max(c.max, int64(math.Round(maxUS*1e3)))
}
