package stat

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// TestSerialAR1 checks that for an autoregressive series with known coefficient,
// the autocorrelation is that coefficient and the effective size matches the
// scatter of means: the variance of one value over that of the mean.
func TestSerialAR1(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 3))
	for _, phi := range []float64{-0.3, 0, 0.3, 0.8, 0.95} {
		const n, runs = 2000, 400
		var all Serial
		var square float64
		sd := 1 / math.Sqrt(1-phi*phi)
		for range runs {
			x, sum := sd*r.NormFloat64(), 0.0
			for range n {
				next := phi*x + r.NormFloat64()
				all.Add(x, next)
				x, sum = next, sum+next
			}
			square += sum / n * sum / n
		}
		rho := all.Correlation()
		if math.Abs(rho-phi) > 0.01 {
			t.Errorf("phi %v: %.3f", phi, rho)
		}
		want := sd * sd / (square / runs)
		if phi < 0 {
			want = n // at most the number of values
		}
		if got := EffectiveSize(n, rho); math.Abs(got/want-1) > 0.25 {
			t.Errorf("phi %v: %.0f effective values, means scatter as %.0f would", phi, got, want)
		}
	}
}

func TestSerialMerge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(0, 25), 5, 60).Draw(t, "values")
		cut := rapid.IntRange(1, len(values)-1).Draw(t, "cut")
		var whole, a, b Serial
		for i := 1; i < len(values); i++ {
			whole.Add(values[i-1], values[i])
			if i < cut {
				a.Add(values[i-1], values[i])
			} else {
				b.Add(values[i-1], values[i])
			}
		}
		a.Merge(&b)
		if a.N != whole.N {
			t.Fatalf("%d pairs of %d", a.N, whole.N)
		}
		if x, y := a.Correlation(), whole.Correlation(); math.Abs(x-y) > 1e-6 && !(math.IsNaN(x) && math.IsNaN(y)) {
			t.Errorf("%v, the whole has %v", x, y)
		}
	})
}

func TestSerialOfLittle(t *testing.T) {
	var s Serial
	for range 5 {
		if s.N < 3 || s.X == 3*float64(s.N) {
			if rho := s.Correlation(); !math.IsNaN(rho) {
				t.Errorf("%d equal pairs correlate by %v", s.N, rho)
			}
		}
		s.Add(3, 3)
	}
	if n := EffectiveSize(100, math.NaN()); n != 100 {
		t.Errorf("%v of 100 that nothing is known of", n)
	}
	if n := EffectiveSize(100, 1); n != 1 {
		t.Errorf("%v of 100 that are all the same", n)
	}
}
