package findings

import (
	"math"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/record"
)

// ofDisruption returns a measure of the aftermath of a disruption; NaN without one.
func ofDisruption(of func(d *record.Disruption) float64) func(*analysis.Observations, *record.Trial) float64 {
	return ofPart(func(c *record.Control) *record.Disruption { return c.Disruption }, of)
}

// recoveryMeasures returns the effects of a disruption and the recovery from it.
func recoveryMeasures() []analysis.Measure {
	recovered := func(name, what string, share float64) analysis.Measure {
		return analysis.MeasureOf(name, ofDisruption(func(d *record.Disruption) float64 { return recoveredBy(d, share) })).Reaching(what)
	}
	counted := func(name string, of func(d *record.Disruption) int64) analysis.Measure {
		return analysis.MeasureOf(name, ofDisruption(func(d *record.Disruption) float64 { return float64(of(d)) }))
	}
	without := func(name, what string, q record.Quantile) analysis.Measure {
		return analysis.MeasureOf(name, ofDisruption(func(d *record.Disruption) float64 {
			switch {
			case float64(d.Losses-d.Returns) > float64(1-q)*float64(d.Losses): // the ended outages are not all of them
				return math.Inf(1)
			case d.Returns == 0:
				return math.NaN()
			}
			return d.Without.At(q)
		})).Reaching(what)
	}
	return []analysis.Measure{
		recovered("recovery_p50", "half of the proxies still lacked some of their configuration at the end", 0.5),
		recovered("recovery_p99", "over 1% of the proxies still lacked some of their configuration at the end", 0.99),
		recovered("recovery_last", "a proxy still lacked some of its configuration at the end", 1),
		recovered("recovery_first", "no proxy recovered", 0),
		without("without_p50", "half of the proxies that lost their stream had not recovered at the end", 0.5),
		without("without_p99", "over 1% of the proxies that lost their stream had not recovered at the end", 0.99),
		analysis.MeasureOf("istiod_ready_time", ofDisruption(func(d *record.Disruption) float64 {
			if d.ReadyUS < 0 {
				return math.Inf(1)
			}
			return analysis.Positive(float64(d.ReadyUS))
		})).Reaching("istiod was still not ready at the end"),
		counted("streams_lost", func(d *record.Disruption) int64 { return d.Losses }),
		counted("streams_refused", func(d *record.Disruption) int64 { return d.Refused }),
		counted("streams_failed", func(d *record.Disruption) int64 { return d.Failed }),
		analysis.MeasureOf("istiod_cpu_peak", ofDisruption(func(d *record.Disruption) float64 { return analysis.Positive(d.CPUPeak) })),
		analysis.MeasureOf("istiod_cpu_per_return", func(o *analysis.Observations, t *record.Trial) float64 {
			d := t.Control.Disruption
			if d == nil || d.Returns == 0 || othersShare(o, t.Control) > mostOthers {
				return math.NaN()
			}
			return d.CPUS * 1e6 / float64(d.Returns)
		}),
		analysis.MeasureOf("istiod_memory_peak", ofDisruption(func(d *record.Disruption) float64 { return analysis.Positive(float64(d.MemoryPeakBytes)) })),
		analysis.MeasureOf("connection_imbalance", ofDisruption(func(d *record.Disruption) float64 {
			if d.Imbalance == nil {
				return math.NaN()
			}
			return *d.Imbalance
		})),
		analysis.MeasureOf("balance_time", ofDisruption(func(d *record.Disruption) float64 {
			if d.Imbalance == nil {
				return math.NaN()
			}
			return orNever(d.BalancedUS)
		})).Reaching("connections were still uneven at the end"),
	}
}

// mostOthers is the maximum share of other proxies, relative to the study's own, for which istiod's
// CPU is attributed to the study's proxies alone.
const mostOthers = 0.05

// othersShare returns the number of other proxies connected before the disruption, as a share of
// the study's own.
func othersShare(o *analysis.Observations, c *record.Control) float64 {
	ours := c.Proxies + c.Gateways + c.Ztunnels + c.RealProxies
	if traffic := controlplane.Of(o.Plan.Study).Traffic; traffic != nil {
		ours += 2*traffic.Endpoints + 1 // its former endpoints may still be connected
	}
	if len(c.Disruption.Points) == 0 || ours == 0 {
		return 0
	}
	connected := 0
	for _, r := range c.Disruption.Points[0].Replicas {
		if r.Connections != nil {
			connected += *r.Connections
		}
	}
	return float64(connected-ours) / float64(ours)
}

// recoveredBy returns when a share of the proxies that lost their stream had their whole
// configuration again, in microseconds; infinite if they never did, NaN if none lost it.
func recoveredBy(d *record.Disruption, share float64) float64 {
	if d.Lost == 0 {
		return math.NaN()
	}
	rank := max(1, int(math.Ceil(share*float64(d.Lost)-1e-9)))
	if rank > len(d.RecoveredUS) {
		return math.Inf(1)
	}
	return float64(d.RecoveredUS[rank-1])
}
