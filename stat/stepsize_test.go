package stat

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestLeastSteps(t *testing.T) {
	for _, c := range []struct {
		n    int
		rate float64
		want int
	}{{5, 1, 0}, {8, 0.05, 3}, {8, 0.04, 4}, {8, 0.02, 0}, {23, 0.002, 3}, {23, 0.001, 4}, {40, 0.01 / 200, 4}, {40, 0.01 / 800, 5}} {
		if got := LeastSteps(c.n, c.rate); got != c.want {
			t.Errorf("%d values at %v: %d after, want %d", c.n, c.rate, got, c.want)
		}
	}
}

// A clear step is found with the number of values that LeastSteps returns, even
// among very many series, and not with one value fewer.
func TestStepsFindWhatTheyCan(t *testing.T) {
	const n, series = 24, 150
	weights := make([]float64, series)
	for i := range weights {
		weights[i] = 1
	}
	least := LeastSteps(n, 0.05/series)
	for _, c := range []struct {
		after int
		found bool
	}{{least - 1, false}, {least + 1, true}} {
		r := rand.New(rand.NewPCG(4, 5))
		all := make([][]float64, series)
		for i := range all {
			for at := range n {
				v := 100 * math.Exp(0.01*r.NormFloat64())
				if i == 0 && at >= n-c.after {
					v *= 3
				}
				all[i] = append(all[i], v)
			}
		}
		steps := Steps(all, weights, 0.05)[0]
		if (len(steps) > 0) != c.found || c.found && steps[0].At != n-c.after {
			t.Errorf("%d of %d values after a step: %v", c.after, n, steps)
		}
	}
}

func TestAboveAll(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, x := range [][]float64{{1, inf, 3, nan}, {-5, inf, -4}, {0, 0, inf}, {inf, nan}} {
		y := AboveAll(x)
		for i, v := range x {
			switch {
			case math.IsNaN(v):
				if !math.IsNaN(y[i]) {
					t.Errorf("%v: %v", x, y)
				}
			case !math.IsInf(v, 1) && y[i] != v, !Finite(y[i]):
				t.Errorf("%v: %v", x, y)
			case math.IsInf(v, 1):
				for k := range x {
					if Finite(x[k]) && y[k] >= y[i] {
						t.Errorf("%v: %v", x, y)
					}
				}
			}
		}
	}
}

// The interval covers the ratio of two medians in some 95%, despite outliers.
func TestSimulationTypicalRatio(t *testing.T) {
	runs := simulationRuns(t, 2000)
	r := rand.New(rand.NewPCG(24, 24))
	for _, n := range [][2]int{{4, 4}, {8, 8}, {8, 16}} {
		for _, astray := range []float64{0, 0.1} {
			covered := 0
			for range runs {
				draw := func(n int, level float64) []float64 {
					x := make([]float64, n)
					for i := range x {
						x[i] = level * math.Exp(0.05*r.NormFloat64())
						if r.Float64() < astray {
							x[i] *= math.Exp(r.NormFloat64())
						}
					}
					return x
				}
				if !TypicalRatio(draw(n[0], 100), draw(n[1], 110), Options{}).Excludes(0.1) {
					covered++
				}
			}
			c := float64(covered) / float64(runs)
			t.Logf("%v blocks, %v astray: covered in %.1f%%", n, astray, 100*c)
			check(t, c, runs, false, "typical ratio", n, astray)
		}
	}
}
