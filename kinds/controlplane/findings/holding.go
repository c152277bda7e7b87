package findings

import (
	"math"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/record"
)

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
