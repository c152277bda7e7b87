package arrival

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/meshtrial/meshtrial/testing/must"
	"pgregory.net/rapid"
)

// gapsOf returns the gaps of a schedule of constant rate, acted on with delays, for
// every every-th request.
func gapsOf(requests []Request, rate float64, every int, act func(at float64) float64) *Gaps {
	var g Gaps
	last := math.NaN()
	for i := 0; i < len(requests); i += every {
		at := act(float64(requests[i].Offset))
		if !math.IsNaN(last) {
			g.Add((at - last) * rate / (float64(every) * 1e9))
		}
		last = at
	}
	return &g
}

func kept(at float64) float64 { return at }

// Each process is recognised and no other is mistaken for it, for any seed, rate
// and number of threads.
func TestGapsTellProcesses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.Float64Range(50, 5000).Draw(t, "rate")
		every := rapid.IntRange(1, 4).Draw(t, "every")
		seed := rapid.Uint64().Draw(t, "seed")
		duration := 4000 / rate
		bound := func(g *Gaps) float64 { return MaxDistance + ChanceDistance(g.N) }
		poisson, uniform := all(Poisson(constant(rate), duration, seed)), all(Uniform(constant(rate), duration))

		g := gapsOf(poisson, rate, every, kept)
		if d := g.Distance(every); d > bound(g) {
			t.Errorf("Poisson's distance from itself is %.3f", d)
		}
		if off := math.Abs(g.RateRatio() - 1); off > 5/math.Sqrt(float64(g.N*int64(every))) {
			t.Errorf("the rate is off by %.3f", off)
		}
		if every == 1 && g.MeanOff() < MaxUneven {
			t.Errorf("Poisson passes as even: %.2f", g.MeanOff())
		}
		g = gapsOf(uniform, rate, every, kept)
		if d := g.Distance(every); d < 2*bound(g) {
			t.Errorf("even gaps pass as Poisson: %.3f", d)
		}
		if g.MeanOff() > 1e-3 || math.Abs(g.RateRatio()-1) > 1e-3 {
			t.Errorf("even gaps are off by %v, their rate %v", g.MeanOff(), g.RateRatio())
		}
		// A timer that fires once per mean gap makes clumps.
		tick := 1e9 / rate
		g = gapsOf(poisson, rate, 1, func(at float64) float64 { return math.Ceil(at/tick) * tick })
		if d := g.Distance(1); d < bound(g) {
			t.Errorf("clumps pass as Poisson: %.3f", d)
		}
		// A generator at four fifths of its speed keeps the shape but not the rate.
		g = gapsOf(poisson, rate, every, func(at float64) float64 { return at * 1.25 })
		if off := g.RateRatio() - 1; off > -MaxRateOff-ChanceRate/math.Sqrt(float64(g.N*int64(every))) {
			t.Errorf("four fifths of the rate pass: %.3f", off)
		}
	})
}

// Timers of a millisecond show at a thousand requests per second; timers of 50 us
// do not, even with many gaps.
func TestGapsOfTimers(t *testing.T) {
	requests := all(Poisson(constant(1000), 200, 7))
	for tick, fits := range map[float64]bool{50e3: true, 1e6: false} {
		g := gapsOf(requests, 1000, 1, func(at float64) float64 { return math.Ceil(at/tick) * tick })
		if d := g.Distance(1); (d <= MaxDistance+ChanceDistance(g.N)) != fits {
			t.Errorf("timers of %v us: distance %.3f of %d gaps", tick/1e3, d, g.N)
		}
		if p := ByChance(g.Distance(1), g.N); p > 0.01 {
			t.Errorf("timers of %v us: p %.3f: so many gaps tell", tick/1e3, p)
		}
	}
}

// The gaps of periods add up to those of the whole.
func TestGapsMerge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var whole, sum Gaps
		for range rapid.IntRange(0, 8).Draw(t, "stretches") {
			var part Gaps
			for _, v := range rapid.SliceOf(rapid.Float64Range(-1, 50)).Draw(t, "gaps") {
				part.Add(v)
				whole.Add(v)
			}
			sum.Merge(&part)
		}
		if sum.Count != whole.Count || sum.N != whole.N || math.Abs(sum.Sum-whole.Sum) > 1e-9*(1+whole.Sum) || math.Abs(sum.Off-whole.Off) > 1e-9*(1+whole.Off) {
			t.Errorf("%+v, the whole is %+v", sum, whole)
		}
		must.OK(t, sum.Check())
		sum.N++
		if sum.Check() == nil {
			t.Error("a gap more than the bins hold passes")
		}
	})
}

// ByChance is the share of samples of the process itself that are at least as far
// off. Bins see slightly less of the distance, which is conservative.
func TestByChance(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	const samples, n = 2000, 400
	below := 0
	for range samples {
		var g Gaps
		for range n {
			g.Add(r.ExpFloat64())
		}
		if ByChance(g.Distance(1), g.N) < 0.05 {
			below++
		}
	}
	if share := float64(below) / samples; share > 0.06 || share < 0.02 {
		t.Errorf("%.3f of samples of the process have p < 0.05", share)
	}
	// Kolmogorov's table: 5% at 1.358, 1% at 1.628, for large n.
	for x, want := range map[float64]float64{1.358: 0.05, 1.628: 0.01} {
		if p := ByChance(x/1000, 1_000_000); math.Abs(p-want) > 0.001 {
			t.Errorf("p at %v is %.4f, want %v", x, p, want)
		}
	}
}

// Gaps that no generator could have written are rejected.
func TestDamagedGaps(t *testing.T) {
	good := Gaps{Count: [gapBins]int64{1, 0, 2}, N: 3, Sum: 2.5, Off: 1}
	must.OK(t, good.Check())
	for what, change := range map[string]func(*Gaps){
		"a bin below zero":  func(g *Gaps) { g.Count[1] = -1 },
		"another number":    func(g *Gaps) { g.N = 2 },
		"a sum below zero":  func(g *Gaps) { g.Sum = -1 },
		"a sum without end": func(g *Gaps) { g.Off = math.Inf(1) },
	} {
		g := good
		if change(&g); g.Check() == nil {
			t.Error(what)
		}
	}
}
