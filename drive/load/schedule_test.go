package load

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/meshtrial/meshtrial/stat"
)

// The autocorrelation of a series can be recovered from what its shards see,
// whether they take turns or get requests at random.
func TestNeighboursOfShards(t *testing.T) {
	const requests = 600_000
	r := rand.New(rand.NewPCG(5, 17))
	for _, c := range []struct {
		process      string
		every, hands int
		rho, within  float64
	}{
		{Poisson, 1, 1, 0.3, 0.01}, {Poisson, 1, 2, 0.3, 0.02}, {Poisson, 1, 4, 0.5, 0.02}, {Poisson, 1, 8, 0.9, 0.01}, {Poisson, 1, 4, 0, 0.03},
		{Poisson, 2, 1, 0.6, 0.02}, {Poisson, 2, 2, 0.8, 0.02}, {Poisson, 2, 4, 0.9, 0.02},
		{Uniform, 1, 2, 0.6, 0.02}, {Uniform, 2, 2, 0.9, 0.02}, {Uniform, 1, 8, 0.95, 0.02},
	} {
		var seen stat.Serial
		last, turn := make([]float64, c.hands*c.every), make([]int, c.hands)
		for i := range last {
			last[i] = math.NaN()
		}
		x, sd := r.NormFloat64(), math.Sqrt(1-c.rho*c.rho)
		for i := range requests {
			x = c.rho*x + sd*r.NormFloat64()
			hand := i % c.hands
			if c.process == Poisson {
				hand = r.IntN(c.hands)
			}
			shard := hand*c.every + turn[hand]%c.every
			turn[hand]++
			if !math.IsNaN(last[shard]) {
				seen.Add(last[shard], x)
			}
			last[shard] = x
		}
		l := law{process: c.process, every: c.every, apart: c.every * c.hands}
		if got := l.neighbours(seen.Correlation()); math.Abs(got-c.rho) > c.within {
			t.Errorf("%s, %d generators of %d threads: %.3f of %v; they saw %.3f", c.process, c.hands, c.every, got, c.rho, seen.Correlation())
		}
	}
	for _, process := range []string{Poisson, Uniform} {
		l := law{process: process, every: 2, apart: 6}
		for r, want := range map[float64]float64{-0.2: 0, 0: 0, 1: 1} {
			if got := l.neighbours(r); math.Abs(got-want) > 1e-12 {
				t.Errorf("%s: %v of %v", process, got, r)
			}
		}
	}
	if got := (law{process: Poisson, every: 1, apart: 1}).neighbours(-0.2); got != -0.2 {
		t.Errorf("one shard: %v", got)
	}
}
