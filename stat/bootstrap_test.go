package stat

import (
	"math"
	"math/rand/v2"
	"sort"
	"testing"
)

// TestRequantile: drawing the quantile by its order statistic agrees with
// drawing every request.
func TestRequantile(t *testing.T) {
	r := rand.New(rand.NewPCG(12, 12))
	samples := make([]float64, 2000)
	for i := range samples {
		samples[i] = latency(r.Float64())
	}
	c := FromSamples(samples)
	for _, q := range []float64{0.5, 0.9, 0.99} {
		const draws = 3000
		fast, slow := make([]float64, draws), make([]float64, draws)
		again := newRequantile(c, q)
		drawn := make([]float64, len(samples))
		for i := range draws {
			fast[i] = again.draw(r)
			if i >= 500 {
				continue
			}
			for j := range drawn {
				drawn[j] = samples[r.IntN(len(samples))]
			}
			sort.Float64s(drawn)
			slow[i] = drawn[int(rankOf(q, float64(len(drawn))))-1]
		}
		mf, sf := meanStdDev(fast)
		ms, ss := meanStdDev(slow[:500])
		if math.Abs(mf-ms) > 0.25*ss || sf < 0.85*ss || sf > 1.15*ss {
			t.Errorf("q%g: %.4f +- %.4f by order statistics, %.4f +- %.4f by requests", q, mf, sf, ms, ss)
		}
	}
}

func TestGamma(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 13))
	for _, shape := range []float64{1, 3.7, 150, 5000} {
		x := make([]float64, 20000)
		for i := range x {
			x[i] = gamma(r, shape)
		}
		m, sd := meanStdDev(x)
		if math.Abs(m/shape-1) > 5/math.Sqrt(shape*20000) || math.Abs(sd*sd/shape-1) > 0.06 {
			t.Errorf("shape %g: mean %g, variance %g", shape, m, sd*sd)
		}
	}
}

// a library of trials of n requests each, to be scaled.
func library(r *rand.Rand, trials, n int) []Counts {
	lib := make([]Counts, trials)
	for i := range lib {
		samples := make([]float64, n)
		for j := range samples {
			samples[j] = latency(r.Float64())
		}
		lib[i] = FromSamples(samples)
	}
	return lib
}

func quantileBlocks(r *rand.Rand, lib []Counts, n int, noise, factor float64) []QuantileBlock {
	trial := func(factor float64) Counts {
		c := lib[r.IntN(len(lib))]
		scale := factor * math.Exp(noise*r.NormFloat64())
		values := make([]float64, len(c.values))
		for i, v := range c.values {
			values[i] = v * scale
		}
		return Counts{values: values, upto: c.upto}
	}
	blocks := make([]QuantileBlock, n)
	for i := range blocks {
		blocks[i] = QuantileBlock{[]Counts{trial(1), trial(1)}, trial(factor)}
	}
	return blocks
}

// TestHierarchicalBootstrap: with real requests in real distributions both
// intervals cover, the same seed gives the same answer, and the share of
// variance that requests explain is told apart from that of trials.
func TestHierarchicalBootstrap(t *testing.T) {
	runs := simulationRuns(t, 400)
	r := rand.New(rand.NewPCG(14, 14))
	lib := library(r, 300, 1000)
	var p90 float64
	for _, c := range lib {
		p90 += c.Quantile(0.9) / float64(len(lib))
	}
	for _, noise := range []float64{0, 0.05} {
		truth := 0.5 * p90 * math.Exp(noise*noise/2) // the mean of lognormal noise
		student, bootstrap := 0, 0
		var share float64
		for run := range runs {
			e := QuantileDifference(quantileBlocks(r, lib, 8, noise, 1.5), 0.9, Options{Seed: uint64(run), Resamples: 200})
			if !e.Excludes(truth) {
				student++
			}
			if e.BootstrapLow <= truth && truth <= e.BootstrapHigh {
				bootstrap++
			}
			share += e.RequestShare / float64(runs)
		}
		t.Logf("trial noise %g: Student's t covers %.1f%%, hierarchical bootstrap %.1f%%, requests explain %.0f%%",
			noise, 100*float64(student)/float64(runs), 100*float64(bootstrap)/float64(runs), share*100)
		for _, covered := range []int{student, bootstrap} {
			// 400 runs tell coverage to 2%, 40 hardly.
			if c := float64(covered) / float64(runs); !testing.Short() && (c < 0.9 || c > 0.99) || c < 0.8 {
				t.Errorf("trial noise %g: coverage %.1f%%", noise, c*100)
			}
		}
		if noise == 0 && share < 0.7 || noise > 0 && share > 0.5 {
			t.Errorf("trial noise %g: requests explain %.2f of the variance", noise, share)
		}
	}
	blocks := quantileBlocks(r, lib, 8, 0.05, 1.5)
	a, b := QuantileDifference(blocks, 0.5, Options{Seed: 1}), QuantileDifference(blocks, 0.5, Options{Seed: 1})
	if a.BootstrapLow != b.BootstrapLow || a.BootstrapHigh != b.BootstrapHigh {
		t.Error("the same seed gave different answers")
	}
	if c := QuantileDifference(blocks, 0.5, Options{Seed: 2}); c.BootstrapLow == a.BootstrapLow || c.Low != a.Low {
		t.Error("another seed must move the bootstrap's interval and nothing else")
	}
	if e := QuantileDifference(blocks, 0.999, Options{}); len(e.Warnings) == 0 {
		t.Error("p99.9 of 1,000 requests rests on one request a trial, without a warning")
	}
	if e := QuantileDifference(blocks[:4], 0.5, Options{}); !math.IsNaN(e.BootstrapLow) || !e.Defined() {
		t.Errorf("4 blocks: %+v", e)
	}
}
