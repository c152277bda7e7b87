package analysis

import (
	"testing"

	"github.com/meshtrial/meshtrial/record"
)

// A difference is held against the generator's lag at its own part of the
// distribution.
func TestLagAtItsPart(t *testing.T) {
	whole := record.Latency{Quantiles: record.QuantilesAt(0.5, 1, 0.9, 2, 0.99, 3, 0.999, 4, 1, 6), Mean: 5}
	earlier := record.LatencyAt(0.5, 1, 0.99, 3, 1, 6)
	for name, c := range map[string]struct {
		m              Measure
		whole, earlier float64
	}{
		"p50":   {LatencyQuantile("latency_p50", 0.5), 1, 1},
		"p90":   {LatencyQuantile("latency_p90", 0.9), 2, 3},
		"p99":   {LatencyQuantile("latency_p99", 0.99), 3, 3},
		"p99.9": {LatencyQuantile("latency_p999", 0.999), 4, 3},
		"mean":  {Measure{Timed: true}, 5, 1},
	} {
		if got := lagAt(whole, c.m); got != c.whole {
			t.Errorf("%s: %g, want %g", name, got, c.whole)
		}
		if got := lagAt(earlier, c.m); got != c.earlier {
			t.Errorf("%s of an earlier run: %g, want %g", name, got, c.earlier)
		}
	}
}
