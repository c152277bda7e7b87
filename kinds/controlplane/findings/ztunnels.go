package findings

import (
	"math"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/study"
)

// ztunnelMeasures returns when the simulated ztunnels had changes, and how much they received.
func ztunnelMeasures(s *study.Study) []analysis.Measure {
	out := analysis.OfFamily(s, controlplane.FamilyZtunnelConvergence, func(d finding.Def) analysis.Measure { return overPairs(d, ztunnelsOnly) })
	ofSome := func(of func(c *record.Control) int64) func(c *record.Control) float64 {
		return func(c *record.Control) float64 {
			if c.Ztunnels == 0 {
				return math.NaN()
			}
			return float64(of(c))
		}
	}
	return append(out,
		analysis.MeasureOf("ztunnel_pushes_per_change", perChange(ofSome(func(c *record.Control) int64 { return wireSum(c.ZtunnelWire).Responses }))),
		analysis.MeasureOf("ztunnel_bytes_per_change", perChange(ofSome(func(c *record.Control) int64 { return wireSum(c.ZtunnelWire).Bytes }))),
		analysis.MeasureOf("ztunnel_config_bytes", ofControl(ofSome(func(c *record.Control) int64 { return bytesIn(c.ZtunnelConfig) }))))
}
