package stat

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// The p-value and the interval agree.
func TestP(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.SliceOfN(rapid.Float64Range(-1, 2), 2, 12).Draw(t, "x")
		e := Mean(x, Options{})
		if e.Low == e.High || math.Abs(e.Low) < 1e-6 || math.Abs(e.High) < 1e-6 {
			t.Skip("it is on the edge")
		}
		if got := e.P() < 0.05; got != e.Excludes(0) {
			t.Fatalf("p is %v of %v from %v to %v", e.P(), e.Value, e.Low, e.High)
		}
		if wide := Mean(x, Options{Level: 0.99}); math.Abs(wide.P()-e.P()) > 1e-6 {
			t.Fatalf("p is %v by the interval of 95%%, %v by that of 99%%", e.P(), wide.P())
		}
	})
	// t is 3.4641 with 2 degrees of freedom, whose p-value is 0.0742.
	if p := Mean([]float64{1, 2, 3}, Options{}).P(); math.Abs(p-0.0742) > 1e-4 {
		t.Errorf("p of 1, 2, 3 is %v", p)
	}
	for _, tt := range []struct {
		e    Estimate
		want float64
	}{
		{Mean([]float64{2, 2, 2}, Options{}), 0}, {Mean([]float64{0, 0, 0}, Options{}), 1}, {Mean([]float64{2}, Options{}), 1}, {Mean(nil, Options{}), 1},
	} {
		if p := tt.e.P(); p != tt.want {
			t.Errorf("p of %+v is %v, want %v", tt.e, p, tt.want)
		}
	}
}

// In Benjamini and Hochberg's own example of 15 p-values, four are found at 5%;
// Bonferroni finds three.
func TestFamily(t *testing.T) {
	f := Family{0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1}
	limit, found := f.Limit(0.05)
	if found != 4 || math.Abs(limit-0.05*4/15) > 1e-12 {
		t.Errorf("%d are found, up to %v", found, limit)
	}
	if is, more := f.Level(0.05, true), f.Level(0.05, false); math.Abs(is-(1-0.05*4/15)) > 1e-12 || math.Abs(more-(1-0.05*5/15)) > 1e-12 {
		t.Errorf("levels %v and %v", is, more)
	}
	if _, found := (Family{0.04, 0.9, 0.9}).Limit(0.05); found != 0 {
		t.Errorf("%d of three are found", found)
	}
	if limit, found := (Family{0.04}).Limit(0.05); found != 1 || limit != 0.05 {
		t.Errorf("alone: %d, up to %v", found, limit)
	}
	if level := (Family{0.01, 0.02}).Level(0.05, false); level != 0.95 {
		t.Errorf("where all are real: %v", level)
	}
	if limit, found := (Family)(nil).Limit(0.05); limit != 0 || found != 0 {
		t.Errorf("of none: %v, %d", limit, found)
	}
}

func TestFloorP(t *testing.T) {
	f := NoiseFloor([]Pair{{1, 1.1}, {1, 0.9}, {1, 1.2}, {1, 0.85}, {1, 1.05}}, Options{})
	if p := f.P(f.Value); math.Abs(p-0.05) > 1e-9 {
		t.Errorf("identical cells differ by the floor in %v", p)
	}
	if f.P(0.5*f.Value) < 0.05 || f.P(2*f.Value) > 0.05 || f.P(f.Bias) != 1 || (Floor{}).P(3) != 1 {
		t.Error("p does not fall with the size")
	}
}
