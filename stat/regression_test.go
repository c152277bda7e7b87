package stat

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Intervals of a line through points whose noise grows with x hold as often as they say.
func TestRegressionCovers(t *testing.T) {
	const worlds, n, intercept, slope = 2000, 20, 0.004, 0.0003
	r := rand.New(rand.NewPCG(7, 11))
	holds := [2]int{}
	for range worlds {
		var points []FitPoint
		for i := range n {
			x := float64(i * 10)
			points = append(points, FitPoint{X: x, Y: intercept + slope*x + (0.0005+0.00003*x)*r.NormFloat64()})
		}
		line := Regression(points, Options{})
		for i, e := range []Estimate{line.Intercept, line.Slope} {
			if !e.Excludes([]float64{intercept, slope}[i]) {
				holds[i]++
			}
		}
	}
	for i, name := range []string{"intercept", "slope"} {
		if share := float64(holds[i]) / worlds; share < 0.92 || share > 0.99 {
			t.Errorf("%s: 95%% intervals hold in %.3f of the worlds", name, share)
		}
	}
}

func TestRegressionOfLittle(t *testing.T) {
	line := func(x ...float64) Line {
		var points []FitPoint
		for _, v := range x {
			points = append(points, FitPoint{X: v, Y: 1 + 2*v})
		}
		return Regression(append(points, FitPoint{X: math.NaN(), Y: 1}), Options{})
	}
	if l := line(0, 1, 2, 3, 5); math.Abs(l.Slope.Value-2) > 1e-9 || math.Abs(l.Intercept.Value-1) > 1e-9 || !l.Slope.Defined() {
		t.Errorf("a straight line: %+v", l)
	}
	for name, l := range map[string]Line{"three points": line(0, 1, 2), "one point tells": line(0, 0, 0, 0, 9), "all alike": line(3, 3, 3, 3, 3), "none": line()} {
		if l.Slope.Defined() {
			t.Errorf("%s: %+v", name, l.Slope)
		}
	}
}
