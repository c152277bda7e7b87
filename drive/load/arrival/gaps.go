package arrival

import (
	"fmt"
	"math"
)

// gapBins is the number of bins of a gap distribution. Each holds an equal share of
// exponential gaps, so that a distance read at their edges is at most 1/64 too small.
const gapBins = 64

// gapEdges are the upper edges of all bins but the last, in mean gaps.
var gapEdges = func() (out [gapBins - 1]float64) {
	for i := range out {
		out[i] = -math.Log1p(-float64(i+1) / gapBins)
	}
	return out
}()

// Gaps is the distribution of the times between a schedule's requests, as multiples of the
// intended mean gap. It has a fixed size, and those of several periods or generators can be
// merged without loss. The zero value is empty.
type Gaps struct {
	Count [gapBins]int64 // by bin
	N     int64
	Sum   float64
	Off   float64 // sum of absolute deviations from the mean gap
}

// Add adds a gap; a negative one counts as zero.
func (g *Gaps) Add(v float64) {
	v = max(v, 0)
	bin := 0
	if v > 0 {
		bin = min(int(gapBins*-math.Expm1(-v)), gapBins-1)
	}
	g.Count[bin]++
	g.N++
	g.Sum += v
	g.Off += math.Abs(v - 1)
}

// Merge adds other gaps.
func (g *Gaps) Merge(o *Gaps) {
	for i, n := range o.Count {
		g.Count[i] += n
	}
	g.N += o.N
	g.Sum += o.Sum
	g.Off += o.Off
}

// Check validates gaps that were read from a file.
func (g *Gaps) Check() error {
	n := int64(0)
	for i, c := range g.Count {
		if c < 0 || c > math.MaxInt64-n {
			return fmt.Errorf("bin %d holds %d", i, c)
		}
		n += c
	}
	if n != g.N || !(g.Sum >= 0) || !(g.Off >= 0) || math.IsInf(g.Sum+g.Off, 0) {
		return fmt.Errorf("%d gaps, %d in bins, sums %v and %v", g.N, n, g.Sum, g.Off)
	}
	return nil
}

// RateRatio returns the actual rate as a share of the intended one; 0 without gaps.
func (g *Gaps) RateRatio() float64 {
	if g.Sum == 0 {
		return 0
	}
	return float64(g.N) / g.Sum
}

// MeanOff returns the mean absolute deviation of gaps as a share of the mean gap: 0 for
// evenly spaced requests, 0.74 for a Poisson process.
func (g *Gaps) MeanOff() float64 {
	if g.N == 0 {
		return 0
	}
	return g.Off / float64(g.N)
}

// Distance returns the Kolmogorov–Smirnov distance from a Poisson process, at the bins'
// edges. The gaps are between every order-th request of the process, so they have an Erlang
// distribution; order is 1 for all requests.
func (g *Gaps) Distance(order int) float64 {
	if g.N == 0 {
		return 0
	}
	worst, upto := 0.0, int64(0)
	for i, edge := range gapEdges {
		upto += g.Count[i]
		worst = max(worst, math.Abs(float64(upto)/float64(g.N)-erlang(order, edge)))
	}
	return worst
}

// erlang returns the probability that the sum of order exponential gaps is at most v times
// its mean.
func erlang(order int, v float64) float64 {
	x := v * float64(order)
	term := math.Exp(-x)
	rest := term
	for i := 1; i < order; i++ {
		term *= x / float64(i)
		rest += term
	}
	return 1 - rest
}

// ByChance returns the probability of a distance of at least d for n gaps of the exact
// process: Kolmogorov's limit with Stephens' correction for small n ("Use of the
// Kolmogorov-Smirnov, Cramér-von Mises and related statistics without extensive tables",
// JRSS B 1970). With many gaps it is tiny for any imperfection; the distance itself matters.
func ByChance(d float64, n int64) float64 {
	root := math.Sqrt(float64(n))
	x := d * (root + 0.12 + 0.11/root)
	if n == 0 || x < 0.3 {
		return 1
	}
	sum, sign := 0.0, 1.0
	for k := 1.0; k <= 100; k++ {
		sum += sign * math.Exp(-2*k*k*x*x)
		sign = -sign
	}
	return min(max(2*sum, 0), 1)
}

// Bounds of the deviation from the intended process. With many gaps a test of fit rejects
// the smallest imperfection of timers, so these bound its size, beyond chance. Beyond the
// first two, arrivals are not those intended. Beyond the odd ones, enough requests were sent
// in clumps for a warning. On two CPUs kept busy by other programs, median latencies of
// windows were normal up to a distance of 0.05 beyond chance, 18% higher from there to 0.1,
// and at least 40% higher beyond.
const (
	MaxDistance = 0.1  // Kolmogorov–Smirnov distance from Poisson arrivals
	MaxUneven   = 0.5  // mean deviation of even gaps as a share of the gap; 0.74 if they are exponential
	MaxRateOff  = 0.02 // deviation of the rate, as a share of it
	OddDistance = 0.05
	OddUneven   = 0.2
)

// ChanceDistance returns the 95th percentile of the distance for n gaps of the exact
// process.
func ChanceDistance(n int64) float64 { return 1.36 / math.Sqrt(float64(max(n, 1))) }

// ChanceRate is the number of standard errors by which a rate may deviate by chance.
const ChanceRate = 3

// Serialised returns the distance from Poisson that sending alone causes: of two requests
// due closer together than it takes to send one (sendS, in seconds), the second is late.
// rate is the thread's, in requests per second.
func Serialised(sendS, rate float64) float64 { return -math.Expm1(-sendS * max(rate, 0)) }
