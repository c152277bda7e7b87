package signals

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/testing/must"
)

// Quantiles of true convergence in PromQL differ from the observations by less
// than a bucket's width.
func TestConvergence(t *testing.T) {
	r, trial := newRecorder(t, t.TempDir()), 0
	rapid.Check(t, func(rt *rapid.T) {
		trial++
		observed := rapid.SliceOfN(rapid.Float64Range(0.002, 60), 1, 200).Draw(rt, "seconds")
		c := NewConvergence(map[string]string{"trial": fmt.Sprint(trial)})
		must.OK(t, r.Append(after(0), c.Samples()))
		for _, s := range observed {
			c.Observe(s)
		}
		must.OK(t, r.Append(after(10), c.Samples()))
		slices.Sort(observed)
		for _, q := range []float64{0.5, 0.9, 0.99} {
			got, ok := one(t, r.Source(), fmt.Sprintf("histogram_quantile(%g, sum by (le) (increase(%s_bucket{trial=\"%d\"}[11s])))", q, MetricConvergence, trial), after(10))
			rank := observed[min(len(observed)-1, max(0, int(math.Ceil(q*float64(len(observed))))-1))]
			if !ok || got > rank*1.26 || got < rank/1.26 {
				rt.Fatalf("p%g of %v is %v, not %v", 100*q, observed, got, rank)
			}
		}
	})
}

func TestConvergenceEdges(t *testing.T) {
	c := NewConvergence(nil)
	for _, s := range []float64{-1, 0, math.NaN(), 1000, math.Inf(1)} {
		c.Observe(s)
	}
	c.Miss()
	values := map[string]float64{}
	for _, s := range c.Samples() {
		values[observe.Metric{Name: s.Name, Labels: s.Labels}.Key()] = s.Value
	}
	for name, want := range map[string]float64{
		MetricConvergence + `_bucket{le="0.001"}`: 2, MetricConvergence + `_bucket{le="300.0"}`: 2,
		MetricConvergence + `_bucket{le="+Inf"}`: 4, MetricConvergence + "_count": 4, MetricMissed: 1,
	} {
		if got, ok := values[name]; !ok || got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if !slices.IsSorted(convergenceBounds) || len(slices.Compact(slices.Clone(convergenceBounds))) != len(convergenceBounds) {
		t.Errorf("bounds: %v", convergenceBounds)
	}
}
