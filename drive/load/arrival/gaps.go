package arrival

import (
	"fmt"
	"math"
)

// gapBins is how many bins a distribution of gaps has. They hold equal shares of
// exponential gaps, so that a distance read at their edges misses at most a 64th
// of any that is there.
const gapBins = 64

// gapEdges are the upper edges of all bins but the last, in mean gaps.
var gapEdges = func() (out [gapBins - 1]float64) {
	for i := range out {
		out[i] = -math.Log1p(-float64(i+1) / gapBins)
	}
	return out
}()

// Gaps are the times between a schedule's requests, each as a multiple of the
// mean gap that its rate asks for. They take a fixed amount of memory, and those
// of several stretches of time or generators add up without loss. The zero value
// is empty.
type Gaps struct {
	Count [gapBins]int64 // by bin
	N     int64
	Sum   float64
	Off   float64 // sum of how far each is from the mean gap, either way
}

// Add notes a gap; one below zero counts as zero.
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

// Merge adds those of another stretch.
func (g *Gaps) Merge(o *Gaps) {
	for i, n := range o.Count {
		g.Count[i] += n
	}
	g.N += o.N
	g.Sum += o.Sum
	g.Off += o.Off
}

// Check says what is wrong with gaps that were read from somewhere.
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

// RateRatio is the rate at which requests left as a share of the rate asked for;
// 0 without gaps.
func (g *Gaps) RateRatio() float64 {
	if g.Sum == 0 {
		return 0
	}
	return float64(g.N) / g.Sum
}

// MeanOff is by how much a gap is off the mean gap on average, as a share of it:
// 0 of evenly spaced requests, 0.74 of a Poisson process.
func (g *Gaps) MeanOff() float64 {
	if g.N == 0 {
		return 0
	}
	return g.Off / float64(g.N)
}

// Distance is the largest difference between the share of gaps up to a length
// and the share that a Poisson process has (Kolmogorov and Smirnov), at the
// bins' edges. order says that gaps are between every order-th request of the
// process, whose law is Erlang's; 1 for all.
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

// erlang is the share of the sums of so many exponential gaps that lie within v
// times their mean.
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

// ByChance is how probable a distance of at least d is of n gaps of the very
// process: Kolmogorov's limit with Stephens' correction for small n ("Use of the
// Kolmogorov-Smirnov, Cramér-von Mises and related statistics without extensive
// tables", JRSS B 1970). Of many gaps it is tiny for the smallest imperfection;
// what matters is the distance itself.
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

// How far actual gaps may be from the process asked for. With many gaps a test
// of fit refuses the smallest imperfection of timers, so that these bound its
// size, beyond what chance makes. Beyond the first two the arrivals are others
// than those asked for; beyond the odd ones so many requests left in clumps that
// it should be known. On two CPUs that other programs kept busy the median
// latencies of windows were as usual up to a distance of 0.05 beyond chance, 18%
// above that from there to 0.1, and 40% and more beyond.
const (
	MaxDistance = 0.1  // of Poisson arrivals, Kolmogorov and Smirnov's distance
	MaxUneven   = 0.5  // of even gaps, the mean deviation as a share of the gap; 0.74 if they are exponential
	MaxRateOff  = 0.02 // of the rate, as a share of it
	OddDistance = 0.05
	OddUneven   = 0.2
)

// ChanceDistance is the distance that n gaps of the very process stay below in
// 95% of cases.
func ChanceDistance(n int64) float64 { return 1.36 / math.Sqrt(float64(max(n, 1))) }

// ChanceRate is how many standard errors a rate may be off by chance.
const ChanceRate = 3

// Serialised is how far gaps get from Poisson's by no fault of a timer: of
// requests that are due closer together than it takes to send one (seconds) the
// second leaves late. rate is that of the thread, in requests per second.
func Serialised(sendS, rate float64) float64 { return -math.Expm1(-sendS * max(rate, 0)) }
