package stat

import (
	"fmt"
	"math"
)

// minTail is how many requests per trial should leave beyond a quantile before
// that quantile is trusted without a warning.
const minTail = 10

// minBootstrapBlocks is the number of blocks from which the bootstrap's
// standard errors are varied enough to studentize with.
const minBootstrapBlocks = 6

// A QuantileBlock holds the latency distributions of one block: every repeat
// of the baseline, and the cell under test.
type QuantileBlock struct {
	Base []Counts
	Test Counts
}

// A QuantileEstimate is the estimate of a difference between quantiles, with
// what resampling says about it.
type QuantileEstimate struct {
	// Estimate has Student's t interval on the blocks' differences: the one
	// to report.
	Estimate
	// BootstrapLow and BootstrapHigh are the hierarchical bootstrap-t
	// interval at the same level: blocks are resampled, then the requests
	// of their trials. It follows skewed differences but needs blocks: NaN
	// with fewer than 6. Where it differs much from the reported interval a
	// warning says so.
	BootstrapLow, BootstrapHigh float64
	// RequestShare is how much of the variance between blocks the scatter
	// of requests alone explains, 0 to 1. Near 1, longer windows narrow the
	// interval; near 0, only more blocks do. NaN with fewer than 2 blocks.
	RequestShare float64
}

// QuantilePairs takes the q-quantile of every trial: one pair per block, the
// baseline being the mean of its repeats.
func QuantilePairs(blocks []QuantileBlock, q float64) []Pair {
	pairs := make([]Pair, len(blocks))
	for i, b := range blocks {
		pairs[i] = Pair{Base: meanFinite(b.baseQuantiles(q)), Test: b.Test.Quantile(q)}
	}
	return pairs
}

func (b QuantileBlock) baseQuantiles(q float64) []float64 {
	base := make([]float64, len(b.Base))
	for i, c := range b.Base {
		base[i] = c.Quantile(q)
	}
	return base
}

// meanFinite is the mean of the finite values, NaN if there are none.
func meanFinite(values []float64) float64 {
	x, _ := keepFinite(values)
	if len(x) == 0 {
		return math.NaN()
	}
	return mean(x)
}

// QuantileDifference estimates how much higher the q-quantile (0 < q < 1) of
// the tested cell is than the baseline's, in the unit of the counts: see
// [Difference]. Resampling completes the estimate.
func QuantileDifference(blocks []QuantileBlock, q float64, o Options) QuantileEstimate {
	pairs := QuantilePairs(blocks, q)
	e := Difference(pairs, o)
	out := QuantileEstimate{
		Estimate: e, BootstrapLow: math.NaN(), BootstrapHigh: math.NaN(), RequestShare: math.NaN(),
	}
	if !(q > 0 && q < 1) {
		out.warn("quantile %g is not between 0 and 1", q)
		return out
	}
	tail := math.Inf(1)
	h := hierarchy{}
	for i, p := range pairs {
		d := p.Test - p.Base
		if !Finite(d) {
			continue
		}
		h.add(blocks[i], q, d)
		for _, c := range append([]Counts{blocks[i].Test}, blocks[i].Base...) {
			if c.Total() > 0 {
				tail = math.Min(tail, math.Min(q, 1-q)*float64(c.Total()))
			}
		}
	}
	if tail < minTail {
		out.warn("%s rests on only %.3g requests per trial beyond it", quantileName(q), tail)
	}
	if len(h.value) < 2 || e.SE == 0 {
		return out
	}
	within := h.center(o)
	out.RequestShare = math.Min(1, within/(e.SE*e.SE*float64(len(h.value))))
	if len(h.value) < minBootstrapBlocks {
		return out
	}
	tail2 := (1 - e.Level) / 2
	t := h.studentized(o, tail2, 1-tail2)
	m := mean(h.value)
	out.BootstrapLow, out.BootstrapHigh = m-t[1]*e.SE, m-t[0]*e.SE
	half := tQuantile(1-tail2, e.DF) * e.SE
	if s := math.Abs(out.BootstrapLow+out.BootstrapHigh-2*m) / (2 * half); s > 0.5 {
		out.warn("differences are skewed: the bootstrap interval lies %.0f%% of its half width to one side", s*100)
	}
	return out
}

// quantileName gives 0.999 as "p99.9".
func quantileName(q float64) string {
	return fmt.Sprintf("p%g", math.Round(q*1e7)/1e5)
}
