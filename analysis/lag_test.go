package analysis

import (
	"testing"

	"github.com/meshtrial/meshtrial/record"
)

// A difference is compared with the generator's lag at its own part of the
// distribution.
func TestLagAtItsPart(t *testing.T) {
	whole := record.Latency{Quantiles: record.QuantilesAt(0.5, 1, 0.9, 2, 0.99, 3, 0.999, 4, 1, 6), Mean: 5}
	for name, c := range map[string]struct {
		m    Measure
		want float64
	}{
		"p50":   {LatencyQuantile("latency_p50", 0.5), 1},
		"p90":   {LatencyQuantile("latency_p90", 0.9), 2},
		"p99":   {LatencyQuantile("latency_p99", 0.99), 3},
		"p99.9": {LatencyQuantile("latency_p999", 0.999), 4},
		"mean":  {Measure{Timed: true}, 5},
	} {
		if got := lagAt(whole, c.m); got != c.want {
			t.Errorf("%s: %g, want %g", name, got, c.want)
		}
	}
}
