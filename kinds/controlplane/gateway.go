package controlplane

import (
	"slices"
	"time"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/study"
)

// Gateway is a real gateway of the mesh, with a pod behind it, that changes add routes to. Requests
// probe each route on a schedule (open loop), from when it is due until it is served.
type Gateway struct {
	// Every is the initial interval between two requests to a route. Later it is a hundredth of the
	// time for which the route has been probed. It bounds the error of the time at which the route
	// is served.
	Every time.Duration
	// Probes is the number of a trial's routes that are probed, counting from the first.
	Probes int
	// Timeout is the time after which an unanswered request fails.
	Timeout time.Duration
}

func defaultGateway() Gateway {
	return Gateway{Every: 2 * time.Millisecond, Probes: 100, Timeout: time.Second}
}

// gatewayChanges are the changes that add a route to the real gateway.
var gatewayChanges = []string{ChangeGatewayRoute, ChangeHTTPRoute}

// RoutesGateway reports whether changes of a kind add routes to the real gateway.
func RoutesGateway(change string) bool { return slices.Contains(gatewayChanges, change) }

// GatewayAPI reports whether the plan has changes to Gateway API objects.
func GatewayAPI(p *study.Plan) bool {
	return slices.ContainsFunc(p.Cells, func(cell record.Cell) bool { return cell[FactorChange] == ChangeHTTPRoute })
}

// gatewayFields returns the fields of section gateway.
func gatewayFields(g *Gateway) study.Object {
	return study.Object{Name: "gateway", Flow: true, Fields: []study.Field{
		{Name: "every", Doc: "Time between two requests to a route (open loop), or 1% of the time since the first if that is more: the resolution of when it is served.",
			Value: study.Duration(&g.Every, 500*time.Microsecond, time.Second)},
		{Name: "probes", Doc: "Number of routes that requests probe, from a trial's first, to see when each is served; 0 for none.", Value: study.Int(&g.Probes, 0, 1000)},
		{Name: "timeout", Doc: "Request timeout.", Value: study.Duration(&g.Timeout, 10*time.Millisecond, time.Minute)},
	}}
}

// checkGateway finds routes without a gateway and gateways without routes.
func checkGateway(d *study.Decoder, s *study.Study) {
	c, levels := Of(s), s.Levels(FactorChange)
	routes := slices.IndexFunc(levels, RoutesGateway)
	if c.Gateway != nil && !slices.ContainsFunc(s.Written(FactorChange), RoutesGateway) {
		d.Fail(d.Pos("control", "gateway"), study.CodeConflict, "make the changes "+ChangeGatewayRoute+" or "+ChangeHTTPRoute+", or leave it out", "no change adds a route to the gateway")
		return
	}
	if routes < 0 {
		return
	}
	switch {
	case c.Gateway == nil:
		d.Fail(d.Pos("control"), study.CodeConflict, "for example gateway: {}", "change %s needs control.gateway, the real gateway that receives the route", levels[routes])
	case c.Objects > 0 && slices.Contains(levels, ChangeHTTPRoute):
		d.Fail(d.Pos("control", "objects"), study.CodeConflict, "leave it out: each change makes a route of its own", "a changed route adds none, so the Gateway's status would never count it")
	case slices.Contains(levels, ChangeHTTPRoute) && slices.ContainsFunc(s.Levels(FactorDisruption), func(level string) bool { return level != study.LevelNone }):
		d.Fail(d.Pos("factors", FactorDisruption), study.CodeConflict, "use disruptions with other changes", "the routes of change %s are deleted after the window, when the disruption would happen", ChangeHTTPRoute)
	case c.Gateway.Probes > 0 && c.Objects > 0:
		d.Fail(d.Pos("control", "objects"), study.CodeConflict, "leave it out: each change makes a route of its own; or gateway: {probes: 0}", "a route that changes is already being served, so when it is served cannot be measured")
	}
}

const (
	// mostProbes is the maximum number of probes per second, because istiod is measured alongside
	// them.
	mostProbes = 2000
	// probedTime is the usual time for which a route is probed, most of which istiod spends
	// debouncing.
	probedTime = 300 * time.Millisecond
)

// checkRoutes finds cells with a real gateway but no simulated one, and routes that would be probed
// by too many requests.
func checkRoutes(d *study.Decoder, p *study.Plan, cell record.Cell, l Levels) bool {
	g := Of(p.Study).Gateway
	if g == nil {
		return true
	}
	if l.Gateways == 0 {
		d.Fail(d.Pos("control", "gateway"), study.CodeConflict, "for example settings: {gateways: 1}", "cell %s has no simulated gateway, whose ACK is compared with the real one", p.Label(cell))
		return false
	}
	if !RoutesGateway(l.Change) {
		return true
	}
	together := highestRate(l.ChangeRate) * probedTime.Seconds() // routes probed at the same time
	if kind, burst := l.Arrival(); kind == study.ArrivalBurst {
		if burst == 0 {
			burst = ChangesIn(p.Study, cell)
		}
		together = max(together, float64(burst))
	}
	together = min(together, float64(g.Probes))
	rate := together / g.Every.Seconds()
	if rate <= mostProbes {
		return true
	}
	every := time.Duration(together/mostProbes*float64(time.Second)).Round(time.Millisecond) + time.Millisecond
	d.Fail(d.Pos("control", "gateway", "every"), study.CodeLimit, "as every: "+study.FormatDuration(every)+", or probes: 0",
		"in cell %s about %.0f requests per second would probe routes: more than %d would be load of their own", p.Label(cell), rate, mostProbes)
	return false
}

// gatewayFindings returns findings about the routes of a real gateway.
func gatewayFindings() []finding.Def {
	us := func(name, words, doc, section string) finding.Def {
		return finding.Def{Name: name, Unit: finding.UnitMicroseconds, Words: words, Doc: doc, Section: section}
	}
	count := func(name, unit, words, doc, section string) finding.Def {
		return finding.Def{Name: name, Unit: unit, Words: words, Doc: doc, Section: section}
	}
	served := us(FamilyRouteServed, "time until a route is served", "From a route's commit until the response to the first successful request through the real gateway: median over changes. Requests are open loop.", SectionRoutes)
	served.Differences = SectionLevers
	after := study.Compared(us("route_served_after_ack", "from the ACK until a route is served", "How much later that is than the last ACK of the simulated gateways, which have the same routes: median over changes.", SectionRoutes), SectionLevers)
	after.Signed = true
	resolution := us("route_resolution", "precision of when a route is served", "From the last unsuccessful request to the response to the first successful one: median over changes. The gateway began to serve the route within that time.", SectionRoutes)
	resolution.Context = true
	return append(overChanges(served, []record.Quantile{0.5, 0.9, 1}, "route"),
		study.Compared(us("route_acked", "until a route is acknowledged", "From a route's commit until the last simulated gateway has acknowledged it: median over the probed changes.", SectionRoutes), SectionLevers),
		after, resolution,
		count("routes_unserved", finding.UnitRoutes, "routes never served", "Routes not served by the end, per trial.", SectionRoutes),
		count("route_errors", finding.UnitRequests, "requests to routes that failed", "Failed requests to routes, per trial: any response except 200 and, before the first 200, 404.", SectionRoutes),
		study.Compared(us("attached_all", "until a Gateway's status has all routes", "From the last route's commit until the Gateway's status has all of them in attachedRoutes.", SectionAttached), SectionLevers),
		us("attached_all_since_first", "until a Gateway's status has all routes, from the first", "The same from the first route's commit.", SectionAttached),
		study.Compared(us("attached_none", "until a Gateway's status has no route left", "From the response to the last deletion of a route until attachedRoutes has none.", SectionAttached), SectionLevers),
		us("attached_none_since_first", "until a Gateway's status has no route left, from the first deletion", "The same from when the first deletion was sent.", SectionAttached),
		study.Compared(count("gateway_status_writes", finding.UnitWrites, "writes of a Gateway's status", "Writes of the Gateway's status while routes are added, per trial, by a watch.", SectionAttached), SectionLevers),
		count("gateway_status_writes_down", finding.UnitWrites, "writes of a Gateway's status as routes are deleted", "The same while they are deleted.", SectionAttached),
		study.Compared(count("gateway_status_writes_total", finding.UnitWrites, "writes of a Gateway's status in all", "Both together.", SectionAttached), ""))
}
