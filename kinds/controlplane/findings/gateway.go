package findings

import (
	"math"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/study"
)

// routesAsked holds the outcomes of requests through a real gateway for a trial's routes, in
// microseconds after the routes' commits.
type routesAsked struct {
	asked int
	// served, acked and after have an entry for each route that has all of them: when its first
	// successful answer arrived, when the last simulated gateway had acknowledged it, and the
	// former minus the latter. unserved and unacked count the other routes.
	served, acked, after []float64
	unserved, unacked    int
	resolution           []float64
	errors               int
}

func routesOf(events []*record.Event) routesAsked {
	var out routesAsked
	for _, e := range events {
		s := e.Served
		if s == nil || e.Error != "" {
			continue
		}
		out.asked++
		last, acked := lastAck(e)
		switch {
		case acked:
			out.acked = append(out.acked, last)
		case len(e.Missed)+len(e.Seen.Proxy) > 0:
			out.unacked++
		}
		out.errors += s.Failed
		if s.AnsweredUS == nil {
			out.unserved++
			continue
		}
		at := float64(*s.AnsweredUS)
		out.served = append(out.served, at)
		if acked {
			out.after = append(out.after, at-last)
		}
		if s.BadUS != nil {
			out.resolution = append(out.resolution, at-float64(*s.BadUS))
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

// overRoutes returns [overChanges], but infinite if no route got that far.
func overRoutes(at []float64, lacking int, q float64) float64 {
	if len(at) == 0 && lacking > 0 {
		return math.Inf(1)
	}
	return overChanges(at, lacking, q)
}

// gatewayMeasures returns measures of the routes of a real gateway.
func gatewayMeasures(s *study.Study) []analysis.Measure {
	routes := func(name string, of func(r routesAsked) float64) analysis.Measure {
		return analysis.MeasureOf(name, func(o *analysis.Observations, t *record.Trial) float64 {
			r := routesOf(o.Events[t.ID])
			if r.asked == 0 {
				return math.NaN()
			}
			return of(r)
		})
	}
	out := analysis.OfFamily(s, controlplane.FamilyRouteServed, func(d finding.Def) analysis.Measure {
		never := "too many routes were never served"
		switch d.At {
		case 0.5:
			never = "half of the routes were never served"
		case 1:
			never = "a route was never served"
		}
		return routes(d.Name, func(r routesAsked) float64 { return overRoutes(r.served, r.unserved, float64(d.At)) }).Reaching(never)
	})
	out = append(out,
		routes("route_acked", func(r routesAsked) float64 { return overRoutes(r.acked, r.unacked, 0.5) }).Reaching("half of the routes were never acknowledged by all gateways"),
		routes("route_served_after_ack", func(r routesAsked) float64 { return medianOrNaN(r.after) }),
		routes("route_resolution", func(r routesAsked) float64 { return medianOrNaN(r.resolution) }),
		routes("routes_unserved", func(r routesAsked) float64 { return float64(r.unserved) }),
		routes("route_errors", func(r routesAsked) float64 { return float64(r.errors) }))
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
