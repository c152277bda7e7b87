package stat

import (
	"math"
	"math/rand/v2"
	"testing"
)

// With noise alone, a drift beyond two standard errors is about as rare as that
// suggests, somewhat more frequent with few values. A real drift is found.
func TestDriftOf(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 9))
	for _, n := range []int{8, 9, 20} {
		const runs = 4000
		false1, seen := 0, 0
		for range runs {
			x := make([]float64, n)
			for i := range x {
				x[i] = 100 + 5*r.NormFloat64()
			}
			if d, ok := DriftOf(x); !ok || d.N != n {
				t.Fatalf("%d values: %+v", n, d)
			} else if d.Beyond(0) > 0 {
				false1++
			}
			for i := n - n/2; i < n; i++ {
				x[i] -= 30
			}
			if d, _ := DriftOf(x); d.Change() < 0 && d.Beyond(0) > 0 && d.Beyond(d.Change()) == 0 {
				seen++
			}
		}
		if share := float64(false1) / runs; share > 0.1 || share < 0.01 {
			t.Errorf("%d values of noise drift in %.1f%% of cases", n, share*100)
		}
		if share := float64(seen) / runs; share < 0.9 {
			t.Errorf("a drift of six standard deviations shows in %.1f%% of cases among %d values", share*100, n)
		}
	}
}

// Correlated values do not give false certainty.
func TestDriftOfWaves(t *testing.T) {
	calm, waves := []float64{}, []float64{}
	for i := range 20 {
		calm = append(calm, 100+float64(i%2))
		waves = append(waves, 100+20*math.Sin(float64(i)))
	}
	a, _ := DriftOf(calm)
	b, _ := DriftOf(waves)
	if !(b.SE > 10*a.SE) {
		t.Errorf("errors %v and %v", a.SE, b.SE)
	}
	if _, ok := DriftOf([]float64{1, 2, math.NaN(), 3}); ok {
		t.Error("three values have halves of two")
	}
	if d, ok := DriftOf([]float64{1, 1, math.NaN(), 3, 3}); !ok || d.Change() != 2 || d.N != 4 {
		t.Errorf("%+v, %v", d, ok)
	}
}
