package stat

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// TestSimulationTypical checks that the interval of the typical value covers the
// median of all blocks in 92 to 98% of runs, for any distribution. The table
// compares its width with that of Student's interval, which is for a different
// figure if outliers dominate the mean.
func TestSimulationTypical(t *testing.T) {
	runs := simulationRuns(t, 4000)
	r := rand.New(rand.NewPCG(51, 51))
	mixture := func(share, factor float64) func() float64 {
		return func() float64 {
			x := math.Exp(0.03 * r.NormFloat64())
			if r.Float64() < share {
				x *= factor
			}
			return x
		}
	}
	for _, w := range []struct {
		name   string
		draw   func() float64
		median float64
	}{
		{"normal, 3%", func() float64 { return 1 + 0.03*r.NormFloat64() }, 1},
		{"exponential", func() float64 { return r.ExpFloat64() }, math.Ln2},
		{"heavy", func() float64 { return heavyNoise(r) }, 0},
		{"5% 10 times", mixture(0.05, 10), math.Exp(0.03 * 0.0660)}, // its 0.5/0.95-quantile
		{"10% 1.5 times", mixture(0.1, 1.5), math.Exp(0.03 * 0.1397)},
	} {
		line := fmt.Sprintf("%-14s", w.name)
		for _, n := range []int{3, 4, 5, 6, 9, 12, 18} {
			covered, width, student := 0, 0.0, 0.0
			for range runs {
				x := make([]float64, n)
				for i := range x {
					x[i] = w.draw()
				}
				e, m := Typical(x, Options{}), Mean(x, Options{})
				if !e.Excludes(w.median) {
					covered++
				}
				width, student = width+e.High-e.Low, student+m.High-m.Low
			}
			c := float64(covered) / float64(runs)
			line += fmt.Sprintf(" | %2d: %.1f, %.2f as wide", n, c*100, width/student)
			if c < 0.92-slack(runs) || c > 0.98+slack(runs) {
				t.Errorf("%s, %d blocks: coverage %.1f%%, want 92 to 98", w.name, n, c*100)
			}
		}
		t.Log(line)
	}
}

func TestTypical(t *testing.T) {
	// Of 9 values the second and the eighth bound the median at 96.1%, the third
	// and the seventh at 82.0%: a twelfth of the way by Hettmansperger and Sheather.
	e := Typical([]float64{9, 1, 8, 2, 7, 3, 6, 4, 5}, Options{})
	share := (0.9609375 - 0.95) / (0.9609375 - 0.8203125)
	inward := 7 * share / (2 + 5*share)
	if e.Value != 5 || math.Abs(e.Low-(2+inward)) > 1e-9 || math.Abs(e.High-(8-inward)) > 1e-9 || e.Blocks != 9 {
		t.Errorf("%+v, want 5 from %g to %g", e, 2+inward, 8-inward)
	}
	if e := Typical([]float64{2, math.NaN(), 2, 2}, Options{}); e.Low != 2 || e.High != 2 || len(e.Warnings) != 1 {
		t.Errorf("of values that are all the same: %+v", e)
	}
	if e := Typical([]float64{3}, Options{}); e.Defined() || e.Value != 3 {
		t.Errorf("of one block: %+v", e)
	}
	if e := Typical(nil, Options{}); !math.IsNaN(e.Value) {
		t.Errorf("of none: %+v", e)
	}
	far := Typical([]float64{5, 5.1, 5.2, 5, 5.1, 5.2, 5.05, 5.15, 900}, Options{})
	if far.High > 6 || !noteOutlierLevel.In(far.Warnings) {
		t.Errorf("with an outlier: %+v", far)
	}
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.SliceOfN(rapid.Float64Range(0.1, 100), 2, 30).Draw(t, "x")
		e := Typical(x, Options{})
		if !(e.Low <= e.Value && e.Value <= e.High) {
			t.Fatalf("%v is not from %v to %v", e.Value, e.Low, e.High)
		}
		wide := Typical(x, Options{Level: 0.99})
		if wide.Low > e.Low+1e-9 || wide.High < e.High-1e-9 {
			t.Fatalf("at 99%% %v to %v, at 95%% %v to %v", wide.Low, wide.High, e.Low, e.High)
		}
	})
}
