package findings

import (
	"math"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// acks holds when the last simulated gateway had acknowledged a trial's probed routes, in microseconds
// after their commits, and how much later each was served. unacked counts the other routes.
type acks struct {
	acked, after []float64
	unacked      int
}

func acksOf(events []*record.Event) (out acks) {
	for _, e := range events {
		if e.Served == nil || e.Error != "" {
			continue
		}
		last, acked := lastAck(e)
		switch {
		case !acked && len(e.Missed)+len(e.Seen.Proxy) > 0:
			out.unacked++
		case acked:
			out.acked = append(out.acked, last)
			if at := e.Served.AnsweredUS; at != nil {
				out.after = append(out.after, float64(*at)-last)
			}
		}
	}
	return out
}

// lastAck returns when the last simulated proxy that needs a change acknowledged it.
func lastAck(e *record.Event) (at float64, ok bool) {
	at = math.Inf(-1)
	for i := range e.Seen.Proxy {
		if i < len(e.Seen.AppliedUS) && e.Seen.AppliedUS[i] != record.Never { // a real Envoy's
			continue
		}
		if i >= len(e.Seen.AckedUS) || e.Seen.AckedUS[i] == record.Never {
			return 0, false
		}
		at = math.Max(at, float64(e.Seen.AckedUS[i]))
	}
	return at, len(e.Missed) == 0 && !math.IsInf(at, -1)
}

// gatewayMeasures returns measures of the routes of a real gateway.
func gatewayMeasures(s *study.Study) []analysis.Measure {
	ofAcks := func(name string, of func(a acks) float64) analysis.Measure {
		return analysis.MeasureOf(name, func(o *analysis.Observations, t *record.Trial) float64 { return of(acksOf(o.Events[t.ID])) })
	}
	served, others := analysis.RouteMeasures(s, controlplane.FamilyRouteServed, "route_resolution", "routes_unserved", "route_errors")
	out := append(served,
		ofAcks("route_acked", func(a acks) float64 {
			if len(a.acked) == 0 && a.unacked > 0 {
				return math.Inf(1)
			}
			return overChanges(a.acked, a.unacked, 0.5)
		}).Reaching("half of the routes were never acknowledged by all gateways"),
		ofAcks("route_served_after_ack", func(a acks) float64 { return medianOrNaN(a.after) }))
	out = append(out, others...)
	attached := func(name string, of func(a *record.Attached) float64) analysis.Measure {
		return analysis.MeasureOf(name, ofPart(func(c *record.Control) *record.Attached { return c.Attached }, of))
	}
	detached := func(name string, of func(a *record.Attached) float64) analysis.Measure {
		return attached(name, func(a *record.Attached) float64 {
			if a.Kept {
				return math.NaN()
			}
			return of(a)
		})
	}
	const lacking, left = "the status never had all routes", "the status still had routes at the end"
	return append(out,
		attached("attached_all", func(a *record.Attached) float64 { return orNever(a.AllUS) }).Reaching(lacking),
		attached("attached_all_since_first", func(a *record.Attached) float64 { return orNever(a.FirstUS) }).Reaching(lacking),
		detached("attached_none", func(a *record.Attached) float64 { return orNever(a.NoneUS) }).Reaching(left),
		detached("attached_none_since_first", func(a *record.Attached) float64 { return orNever(a.NoneFirstUS) }).Reaching(left),
		attached("gateway_status_writes", func(a *record.Attached) float64 { return float64(a.Writes) }),
		detached("gateway_status_writes_down", func(a *record.Attached) float64 { return float64(a.Unwrites) }),
		detached("gateway_status_writes_total", func(a *record.Attached) float64 { return float64(a.Writes + a.Unwrites) }))
}
