package tuning

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Each step of a ladder changes the setting by at most 30% and, unless it is the only
// one, by at least 10%; whole settings change by one if that is more.
func TestLadder(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		from, to := rapid.Float64Range(1e-3, 1e4).Draw(r, "from"), rapid.Float64Range(1e-3, 1e4).Draw(r, "to")
		whole := rapid.Bool().Draw(r, "whole")
		if whole {
			from, to = math.Max(1, math.Round(from)), math.Max(1, math.Round(to))
		}
		steps := Ladder(from, to, whole)
		if steps[len(steps)-1] != to {
			r.Fatalf("%g to %g ends at %v", from, to, steps)
		}
		last := from
		for _, v := range steps {
			share := math.Abs(v/last - 1)
			switch {
			case from == to:
			case whole && math.Abs(v-last) == 1:
			case whole && share > MostStep+1e-9:
				r.Fatalf("from %g to %g by %g: %v", last, v, share, steps)
			case !whole && (share > MostStep+1e-9 || share < LeastStep && len(steps) > 1):
				r.Fatalf("from %g to %g by %g: %v", last, v, share, steps)
			}
			if (to-from)*(v-last) < 0 {
				r.Fatalf("%g to %g goes back: %v", from, to, steps)
			}
			last = v
		}
	})
	if got := Ladder(0.1, 2.5, false); len(got) != 13 || got[12] != 2.5 {
		t.Errorf("100 ms to 2.5 s are %d steps: %v", len(got), got)
	}
	if got := Ladder(1, 3, true); !slices.Equal(got, []float64{2, 3}) {
		t.Errorf("1 to 3 replicas are %v", got)
	}
	if got := Ladder(0, 5, false); !slices.Equal(got, []float64{5}) {
		t.Errorf("from nothing to 5 is %v", got)
	}
}

// No row beats one on a front, and any other row is beaten or lacks a value.
func TestFront(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		rows := rapid.SliceOfN(rapid.SliceOfN(rapid.SampledFrom([]float64{1, 2, 3, math.NaN()}), 3, 3), 1, 12).Draw(r, "rows")
		for i, on := range Front(rows) {
			lacks := slices.ContainsFunc(rows[i], math.IsNaN)
			beaten := slices.ContainsFunc(rows, func(other []float64) bool {
				if slices.ContainsFunc(other, math.IsNaN) {
					return false
				}
				better := false
				for k := range other {
					if !(other[k] <= rows[i][k]) {
						return false
					}
					better = better || other[k] < rows[i][k]
				}
				return better
			})
			if on == (lacks || beaten) {
				r.Fatalf("row %d of %v: on the front %v", i, rows, on)
			}
		}
	})
}

// A factor times its transpose is the matrix, and solving with it works.
func TestFactor(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(r, "n")
		a := newMatrix(n, n)
		for i := range a {
			for j := range a[i] {
				a[i][j] = rapid.Float64Range(-1, 1).Draw(r, "a")
			}
		}
		m := newMatrix(n, n) // a times its transpose, plus a positive diagonal
		for i := range m {
			for j := range m {
				m[i][j] = dot(a[i], a[j])
			}
			m[i][i] += 0.1
		}
		lower, ok := m.factor()
		if !ok {
			r.Fatalf("%v has no factor", m)
		}
		x := make([]float64, n)
		for i := range x {
			x[i] = float64(i + 1)
		}
		b := make([]float64, n)
		for i := range b {
			b[i] = dot(m[i], x)
		}
		lower.forward(b)
		lower.backward(b)
		for i := range b {
			if math.Abs(b[i]-x[i]) > 1e-6 {
				r.Fatalf("solved to %v, not %v", b, x)
			}
		}
	})
	if _, ok := (matrix{{1, 2}, {2, 1}}).factor(); ok {
		t.Error("a matrix that is not positive definite has a factor")
	}
	if d := (matrix{{2, 0}, {1, 3}}).logDeterminant(); math.Abs(d-2*math.Log(6)) > 1e-12 {
		t.Errorf("the determinant's logarithm is %g", d)
	}
	if p := below(1.959964); math.Abs(p-0.975) > 1e-6 {
		t.Errorf("the normal law has %g below 1.96", p)
	}
}
