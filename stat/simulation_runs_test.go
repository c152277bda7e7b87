package stat

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// A runWorld is a simulated lab in which runs of the same thing differ. Each run
// changes the cost of sidecars, each block has other pods, and trials within a run
// correlate, drift, or are outliers.
type runWorld struct {
	name   string
	run    float64 // standard deviation from run to run, a fraction
	pod    float64 // from deployment to deployment, one per block
	drift  float64 // growth of the machine's level from block to block
	ar     float64 // correlation of a trial's noise with that of the previous block
	far    float64 // factor of an outlier, 0 for none
	astray float64 // share of trials that are outliers
}

var runWorlds = []runWorld{
	{name: "run effect 3%", run: 0.03},
	{name: "and pods 2%", run: 0.03, pod: 0.02},
	{name: "and pods 5%", run: 0.03, pod: 0.05},
	{name: "and drift 2% a block", run: 0.03, drift: 0.02},
	{name: "and AR(1) 0.9", run: 0.03, ar: 0.9},
	{name: "and outliers 3x", run: 0.03, far: 3, astray: 0.02},
	{name: "and outliers 10x", run: 0.03, far: 10, astray: 0.02},
	{name: "all, outliers 3x", run: 0.03, pod: 0.05, drift: 0.02, ar: 0.9, far: 3, astray: 0.02},
}

const (
	runBlocks  = 8
	runFigures = 6   // that decide
	alike      = 0.5 // correlation between them
	trialNoise = 0.03
)

// simulate returns a run's blocks of all figures: what a cell of 500 adds to a
// baseline of 100, times effect.
func (w runWorld) simulate(r *rand.Rand, effect float64) [][]float64 {
	shared := func(common float64) float64 {
		return math.Sqrt(alike)*common + math.Sqrt(1-alike)*r.NormFloat64()
	}
	common := r.NormFloat64()
	out := make([][]float64, runFigures)
	own := make([]float64, runFigures)
	noise := make([][2]float64, runFigures)
	for f := range out {
		own[f] = 1 + w.run*shared(common)
		noise[f] = [2]float64{r.NormFloat64(), r.NormFloat64()}
	}
	for block := range runBlocks {
		level := 1 + w.drift*float64(block)
		pods := [2]float64{r.NormFloat64(), r.NormFloat64()}
		trial := [2]float64{r.NormFloat64(), r.NormFloat64()}
		astray := [2]float64{1, 1}
		for i := range astray {
			if r.Float64() < w.astray {
				astray[i] = w.far
			}
		}
		for f := range out {
			value := func(i int, cost float64) float64 {
				noise[f][i] = w.ar*noise[f][i] + math.Sqrt(1-w.ar*w.ar)*shared(trial[i])
				return cost * level * (1 + w.pod*shared(pods[i])) * (1 + trialNoise*noise[f][i]) * astray[i]
			}
			out[f] = append(out[f], value(1, 500*own[f]*effect)-value(0, 100))
		}
	}
	return out
}

// side returns the value of each run of a side, by figure.
func (w runWorld) side(r *rand.Rand, runs int, effect float64) [][]float64 {
	out := make([][]float64, runFigures)
	for range runs {
		for f, blocks := range w.simulate(r, effect) {
			out[f] = append(out[f], Mean(blocks, Options{}).Value)
		}
	}
	return out
}

// together judges figures at one error rate: whether any exceeds the margin.
func together(a, b [][]float64, margin float64) bool {
	p, weights := make([]float64, len(a)), make([]float64, len(a))
	for f := range a {
		weights[f] = 1
		p[f] = PValue(DefaultLevel, func(level float64) bool {
			v, _ := Judge(BetweenRuns(a[f], b[f], Options{Level: level}), margin)
			return v == Worse || v == Better
		})
	}
	for f, rate := range Holm(p, weights, 0.05) {
		if p[f] <= rate {
			return true
		}
	}
	return false
}

// TestSimulationCompare checks that comparisons of equals with several runs per
// side come out better or worse in at most 5%, for any runs, pods, drift and
// outliers, at a margin of zero. The table also has how often a change of 10% and of
// 20% in all figures is found beyond a margin of 5%.
func TestSimulationCompare(t *testing.T) {
	runs := simulationRuns(t, 100)
	r := rand.New(rand.NewPCG(21, 21))
	t.Logf("%-22s %s", "found though equal", "| by 2, 3, 5 runs a side, 5 against 1 | and a change of 10% with 3, 4, 5, 6 runs; of 20%")
	for _, w := range runWorlds {
		share := func(a, b int, effect, margin float64) float64 {
			n := 0
			for range runs {
				if together(w.side(r, a, 1), w.side(r, b, effect), margin) {
					n++
				}
			}
			return float64(n) / float64(runs)
		}
		line := fmt.Sprintf("%-22s |", w.name)
		for _, n := range [][2]int{{2, 2}, {3, 3}, {5, 5}, {5, 1}} {
			equal := share(n[0], n[1], 1, 0)
			line += fmt.Sprintf(" %4.1f%%", 100*equal)
			if n[1] > 1 && equal > 0.05+slack(runs) { // a single outlier run does not make a side
				t.Errorf("%s, %v runs a side: found a change in %.1f%% of equals", w.name, n, 100*equal)
			}
		}
		line += " |"
		for _, effect := range []float64{1.1, 1.2} {
			for _, n := range []int{3, 4, 5, 6} {
				power := share(n, n, effect, 0.05)
				line += fmt.Sprintf(" %5.1f%%", 100*power)
				if w.name == runWorlds[0].name && effect == 1.2 && power < 0.8-slack(runs) {
					t.Errorf("%s: a change of 20%% is found in %.1f%% with %d runs a side", w.name, 100*power, n)
				}
			}
		}
		t.Log(line)
	}
}

// TestSimulationBetweenRuns checks that intervals from run to run cover the change
// in 93% of comparisons or more, with equal and unequal scatter on the two sides.
func TestSimulationBetweenRuns(t *testing.T) {
	runs := simulationRuns(t, 2000)
	r := rand.New(rand.NewPCG(22, 22))
	for _, sd := range [][2]float64{{0.03, 0.03}, {0.03, 0.09}, {0.2, 0.2}} {
		for _, n := range [][2]int{{2, 2}, {3, 3}, {3, 6}, {8, 8}} {
			covered := 0
			for range runs {
				draw := func(n int, level, sd float64) []float64 {
					x := make([]float64, n)
					for i := range x {
						x[i] = level * math.Exp(sd*r.NormFloat64())
					}
					return x
				}
				a, b := draw(n[0], 100, sd[0]), draw(n[1], 110, sd[1])
				if !BetweenRuns(a, b, Options{}).Excludes(0.1) {
					covered++
				}
			}
			c := float64(covered) / float64(runs)
			t.Logf("scatter %.2f and %.2f, %d and %d runs: covered in %.1f%%", sd[0], sd[1], n[0], n[1], 100*c)
			check(t, c, runs, false, "runs", sd, n)
		}
	}
}

// trend simulates figures of runs over time, with the level times effect from a run
// on.
func (w runWorld) trend(r *rand.Rand, runs, at int, effect float64) [][]float64 {
	out := make([][]float64, runFigures)
	for run := range runs {
		common, astray := r.NormFloat64(), 1.0
		if r.Float64() < w.astray {
			astray = w.far
		}
		level := 1.0
		if run >= at {
			level = effect
		}
		for f := range out {
			out[f] = append(out[f], 100*level*astray*(1+w.run*(math.Sqrt(alike)*common+math.Sqrt(1-alike)*r.NormFloat64())))
		}
	}
	return out
}

// TestSimulationTrend checks that 40 runs without a change show none in at least
// 95% of trends, despite outliers. A step of 10% in run 25 is found with three runs
// after it, at most three runs from its place, and its size is covered.
func TestSimulationTrend(t *testing.T) {
	full := simulationRuns(t, 100)
	r := rand.New(rand.NewPCG(23, 23))
	weights := []float64{1, 1, 1, 1, 1, 1}
	for _, w := range []runWorld{
		{name: "runs differ by 3%", run: 0.03},
		{name: "and 5% of runs by 3x", run: 0.03, far: 3, astray: 0.05},
	} {
		for _, c := range []struct {
			runs, at int
			effect   float64
		}{{40, 40, 1}, {20, 20, 1}, {26, 24, 1.1}, {27, 24, 1.1}, {28, 24, 1.1}, {40, 24, 1.1}} {
			any, one, near, covered, trends := 0, 0, 0, 0, full
			if c.effect > 1 {
				trends = (full + 4) / 5
			}
			for range trends {
				series := w.trend(r, c.runs, c.at, c.effect)
				all := Steps(series, weights, 0.05)
				found, place := false, false
				for f, steps := range all {
					found = found || len(steps) > 0
					for _, s := range steps {
						place = place || s.At >= c.at-3 && s.At <= c.at+3
					}
					if f == 0 && len(steps) > 0 {
						one++
						if !StepSize(series[f][:c.at], series[f][c.at:], Options{}).Excludes(c.effect - 1) {
							covered++
						}
					}
				}
				if found {
					any++
				}
				if place {
					near++
				}
			}
			share := func(n int) float64 { return float64(n) / float64(trends) }
			t.Logf("%-22s %d runs, %+.0f%% from run %d: a change in %5.1f%%, within 3 runs of it in %5.1f%%; in one figure of six in %5.1f%%, size covered in %.1f%% of these",
				w.name, c.runs, 100*(c.effect-1), c.at+1, 100*share(any), 100*share(near), 100*share(one), 100*float64(covered)/float64(max(1, one)))
			switch {
			case c.effect == 1:
				if share(any) > 0.05+slack(trends) {
					t.Errorf("%s: %d equal runs change in %.1f%%", w.name, c.runs, 100*share(any))
				}
			case c.runs >= 27 && w.far == 0 && share(near) < 0.95-slack(trends), c.runs >= 28 && share(near) < 0.8-slack(trends):
				t.Errorf("%s: %d runs: the step is found within 3 runs of its place in %.1f%%", w.name, c.runs, 100*share(near))
			}
		}
	}
}
