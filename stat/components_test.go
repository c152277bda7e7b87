package stat

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Simulated runs return the components that were put in.
func TestVarianceComponents(t *testing.T) {
	for _, c := range []struct{ block, deployment, trial float64 }{{0.1, 0, 0.02}, {0, 0.05, 0.03}, {0.05, 0.03, 0.05}} {
		r := rand.New(rand.NewPCG(1, 2))
		draw := func(each int) [][]Pair {
			units := make([][]Pair, 3000)
			for u := range units {
				a, b := c.deployment*r.NormFloat64(), c.deployment*r.NormFloat64()
				for range each {
					level := 100 * math.Exp(c.block*r.NormFloat64())
					units[u] = append(units[u], Pair{level * math.Exp(a+c.trial*r.NormFloat64()), level * math.Exp(b+c.trial*r.NormFloat64())})
				}
			}
			return units
		}
		near := func(name string, got, want float64) {
			t.Helper()
			if !(math.Abs(got-want) < 0.01) {
				t.Errorf("%+v: %s %.4f, want %.4f", c, name, got, want)
			}
		}
		several := VarianceComponents(draw(4))
		near("blocks", several.Blocks, c.block)
		near("deployments", several.Deployments, c.deployment)
		near("trials", several.Trials, c.trial)
		single := VarianceComponents(draw(1))
		near("deployments and trials", single.Deployments, math.Hypot(c.deployment, c.trial))
		near("blocks", single.Blocks, c.block)
		if !math.IsNaN(single.Trials) {
			t.Errorf("one block each, and trials are told apart: %v", single.Trials)
		}
	}
	for name, units := range map[string][][]Pair{"none": nil, "one": {{{1, 2}}}, "no numbers": {{{math.NaN(), 1}}, {{0, 1}}, {{-1, 1}}}} {
		if got := VarianceComponents(units); Finite(got.Deployments) || Finite(got.Blocks) || Finite(got.Trials) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
