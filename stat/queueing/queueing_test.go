package queueing

import (
	"math"
	"math/rand/v2"
	"sort"
	"testing"

	"pgregory.net/rapid"
)

func quantile(x []float64, q float64) float64 {
	s := append([]float64(nil), x...)
	sort.Float64s(s)
	return s[min(int(q*float64(len(s))), len(s)-1)]
}

func meanOf(x []float64) (sum float64) {
	for _, v := range x {
		sum += v / float64(len(x))
	}
	return sum
}

func poisson(r *rand.Rand, n int, rate float64) []float64 {
	out := make([]float64, n)
	at := 0.0
	for i := range out {
		at += r.ExpFloat64() / rate
		out[i] = at
	}
	return out
}

// The time in an M/M/1 queue is exponential with rate mu - lambda; the mean wait of M/D/1 is
// Pollaczek and Khinchine's (Kleinrock, "Queueing Systems" volume 1).
func TestSojournsAgainstFormulas(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	const n, lambda, mu = 400_000, 0.6, 1.0
	arrivals := poisson(r, n, lambda)
	exponential, fixed := make([]float64, n), make([]float64, n)
	for i := range exponential {
		exponential[i], fixed[i] = r.ExpFloat64()/mu, 1/mu
	}
	sojourn := Sojourns(arrivals, exponential, 1)
	for _, q := range []float64{0.5, 0.9, 0.99} {
		if got, want := quantile(sojourn, q), -math.Log1p(-q)/(mu-lambda); math.Abs(got/want-1) > 0.04 {
			t.Errorf("M/M/1 time in system at q%g: %.3f simulated, %.3f by formula", q, got, want)
		}
	}
	deterministic := Sojourns(arrivals, fixed, 1)
	if got, want := meanOf(deterministic)-1/mu, lambda/(mu*mu)/(2*(1-lambda/mu)); math.Abs(got/want-1) > 0.03 {
		t.Errorf("M/D/1 mean wait: %.4f simulated, %.4f by formula", got, want)
	}
}

// TestSojournsProperties checks that more servers never increase the total wait, that with
// enough servers nothing waits, and that no request leaves before being served.
func TestSojournsProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		gaps := rapid.SliceOfN(rapid.Float64Range(0, 2), 1, 50).Draw(t, "gaps")
		services := rapid.SliceOfN(rapid.Float64Range(0, 3), len(gaps), len(gaps)).Draw(t, "services")
		arrivals := make([]float64, len(gaps))
		at := 0.0
		for i, g := range gaps {
			at += g
			arrivals[i] = at
		}
		last := math.Inf(1)
		for _, servers := range []int{1, 2, 4, len(gaps), 0} {
			s := Sojourns(arrivals, services, servers)
			for i := range s {
				if s[i] < services[i]-1e-9 {
					t.Fatalf("request %d left after %g of %g", i, s[i], services[i])
				}
				if (servers == 0 || servers >= len(gaps)) && math.Abs(s[i]-services[i]) > 1e-9 {
					t.Fatalf("request %d waited at %d servers", i, servers)
				}
			}
			if m := meanOf(s); m > last+1e-9 {
				t.Fatalf("%d servers are slower than fewer: %g > %g", servers, m, last)
			} else {
				last = m
			}
		}
	})
}
