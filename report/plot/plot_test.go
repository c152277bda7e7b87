package plot

import (
	"math"
	"testing"
)

// Values lie on an axis in their order, within it, whatever they are.
func TestLogAxis(t *testing.T) {
	a := logAxisFor([]float64{0, 0.02, 5, math.Inf(1)}, 100, 300)
	last := 99.0
	for _, v := range []float64{-1, 0, 0.001, 0.02, 0.5, 5, 1e9} {
		x := a.at(v)
		if x < last || x < 100 || x > 300 {
			t.Errorf("%v is at %v, after %v", v, x, last)
		}
		last = x
	}
	if a.at(0.02) <= 100 || a.at(5) >= 300 {
		t.Error("values lie on the axis' ends")
	}
	for _, values := range [][]float64{nil, {3}, {1, 2}, {1e-6, 1e6}} {
		a := logAxisFor(values, 0, 100)
		if n := len(a.ticks()); n < 1 || n > 16 {
			t.Errorf("%v: %d ticks", values, n)
		}
	}
}
