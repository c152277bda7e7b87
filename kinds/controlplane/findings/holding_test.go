package findings

import (
	"math"
	"testing"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/record"
)

func TestHoldingMeasures(t *testing.T) {
	of := map[string]analysis.Measure{}
	for _, m := range holdingMeasures() {
		of[m.Name] = m
	}
	full := &record.Control{
		Istiod:   map[string]float64{cacheHits: 30, cacheMisses: 10},
		Join:     &record.Join{CacheHits: 1, CacheMisses: 3},
		Holdings: []record.Holding{{DumpBytes: 5}, {Real: true, DumpBytes: 880_000, EndpointDumpBytes: 80_000}},
	}
	for _, c := range []struct {
		name  string
		of    *record.Control
		truth float64
	}{
		{"config_dump_bytes", full, 800_000},
		{"config_dump_bytes", &record.Control{Holdings: []record.Holding{{DumpBytes: 5}}}, math.NaN()},
		{"xds_cache_hit_share", full, 0.75},
		{"xds_cache_hit_share", &record.Control{Istiod: map[string]float64{cacheHits: 4}}, 1},
		{"xds_cache_hit_share", &record.Control{Istiod: map[string]float64{cacheMisses: 4}}, 0},
		{"xds_cache_hit_share", &record.Control{Istiod: map[string]float64{cacheHits: 0, cacheMisses: 0}}, math.NaN()},
		{"xds_cache_hit_share", &record.Control{}, math.NaN()},
		{"join_cache_hit_share", full, 0.25},
		{"join_cache_hit_share", &record.Control{}, math.NaN()},
		{"join_cache_hit_share", &record.Control{Join: &record.Join{}}, math.NaN()},
	} {
		got := of[c.name].Of(nil, &record.Trial{Control: c.of})
		if got != c.truth && !(math.IsNaN(got) && math.IsNaN(c.truth)) {
			t.Errorf("%s of %+v: %g, want %g", c.name, c.of, got, c.truth)
		}
	}
}

func TestHoldingsOfATrial(t *testing.T) {
	one, two := []record.Holding{{Real: true}}, []record.Holding{{Real: true}, {}}
	trials := []*record.Trial{{Control: &record.Control{}}, {Control: &record.Control{Holdings: one}}, {Control: &record.Control{Holdings: two}}}
	if got := holdings(trials); len(got) != 2 {
		t.Errorf("%+v", got)
	}
	if got := holdings(trials[:1]); got != nil {
		t.Errorf("%+v", got)
	}
}
