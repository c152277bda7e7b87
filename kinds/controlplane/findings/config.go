package findings

import (
	"math"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
)

// ofJoin returns a measure of how a new proxy got its configuration; NaN if none joined.
func ofJoin(of func(j *record.Join) float64) func(*analysis.Observations, *record.Trial) float64 {
	return ofPart(func(c *record.Control) *record.Join { return c.Join }, func(j *record.Join) float64 { return analysis.Positive(of(j)) })
}

func joinMeasures() []analysis.Measure {
	out := []analysis.Measure{
		analysis.MeasureOf("join_time", ofJoin(func(j *record.Join) float64 { return float64(j.TotalUS) })),
		analysis.MeasureOf("join_bytes", ofJoin(func(j *record.Join) float64 { return float64(j.Bytes()) })),
	}
	for _, kind := range controlplane.XDSTypes() {
		out = append(out,
			analysis.MeasureOf("join_bytes_"+kind, ofJoin(func(j *record.Join) float64 { return float64(j.Types[kind].Bytes) })),
			analysis.MeasureOf("join_resources_"+kind, ofJoin(func(j *record.Join) float64 { return float64(j.Types[kind].Resources) })))
	}
	return append(out, holdingMeasures()...)
}

// mediansByType returns the median over trials of each type that any has; nil if none has any.
func mediansByType(trials []*record.Trial, of func(c *record.Control) map[string]int64) map[string]int64 {
	var out map[string]int64
	for _, t := range trials {
		for kind := range of(t.Control) {
			if out == nil {
				out = map[string]int64{}
			}
			if _, done := out[kind]; !done {
				out[kind] = int64(math.Round(stat.MedianOf(trials, func(t *record.Trial) float64 { return float64(of(t.Control)[kind]) })))
			}
		}
	}
	return out
}

// Series of istiod's cache of generated resources (pilot/pkg/model/typed_xds_cache.go), counted if
// PILOT_XDS_CACHE_STATS is set.
const (
	cacheHits   = `xds_cache_reads{type="hit"}`
	cacheMisses = `xds_cache_reads{type="miss"}`
)

// holdingMeasures returns the sizes of config dumps and istiod's cache hit rate.
func holdingMeasures() []analysis.Measure {
	return []analysis.Measure{
		analysis.MeasureOf("config_dump_bytes", ofControl(dumpBytes)),
		analysis.MeasureOf("xds_cache_hit_share", ofControl(func(c *record.Control) float64 {
			hits, counted := c.Istiod[cacheHits]
			misses, counted2 := c.Istiod[cacheMisses]
			if !counted && !counted2 {
				return math.NaN()
			}
			return ratio(hits, hits+misses)
		})),
		analysis.MeasureOf("join_cache_hit_share", ofPart(func(c *record.Control) *record.Join { return c.Join },
			func(j *record.Join) float64 { return ratio(j.CacheHits, j.CacheHits+j.CacheMisses) })),
	}
}

// dumpBytes returns the size of a real sidecar's config dump without endpoints, as in published
// figures.
func dumpBytes(c *record.Control) float64 {
	for _, h := range c.Holdings {
		if h.Real {
			return analysis.Positive(float64(h.DumpBytes - h.EndpointDumpBytes))
		}
	}
	return math.NaN()
}
