package ingress

import (
	"fmt"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/study"
)

// Report sections.
const (
	SectionServed = "served"
	SectionCost   = "cost"
)

// FamilyServed is the family of findings about when an added route is served.
const FamilyServed = "route_served"

// Findings that other code names.
const (
	FindingResolution = "route_resolution"
	FindingUnserved   = "routes_unserved"
	FindingErrors     = "added_route_errors"
	FindingOldErrors  = "existing_route_errors"
	FindingReady      = "gateway_ready"
	FindingGatewayCPU = "gateway_cpu"
	FindingControlCPU = "control_cpu"
	FindingGatewayMem = "gateway_memory"
	FindingControlMem = "control_memory"
	FindingPerChange  = "control_cpu_per_change"
)

var table = finding.NewTable(study.OfProbe(MeasureRoutes, routeFindings()), study.OfProbe(MeasureCost, costFindings()), []finding.Def{study.HighestFinding()})

func routeFindings() []finding.Def {
	served := study.Compared(finding.Def{Name: FamilyServed, Unit: finding.UnitMicroseconds, Words: "time until a route is served", Section: SectionServed, Decides: true,
		Doc: "From a route's commit until the response to the first successful request through the gateway: median over changes. The commit is the API server's response to the route's creation. Requests are open loop."}, finding.SectionOther)
	out := finding.AtEach([]record.Quantile{0.5, 0.9, 1}, served, func(d *finding.Def) {
		switch d.At {
		case 0.5:
			d.Name = d.Family
			return
		case 1:
			d.Doc = "The same for the slowest route."
		default:
			d.Doc = fmt.Sprintf("The same at the %s over changes; needs %d of them.", d.At.Words(), d.At.Needs())
		}
		d.Words, d.Compared, d.Differences, d.Decides = "", false, "", false
	})
	return append(out,
		finding.Def{Name: FindingResolution, Unit: finding.UnitMicroseconds, Words: "precision of when a route is served", Section: SectionServed, Context: true,
			Doc: "From the last unsuccessful request to the response to the first successful one: median over changes. The gateway began to serve the route within that time."},
		finding.Def{Name: FindingUnserved, Unit: finding.UnitRoutes, Words: "routes never served", Section: SectionServed, Fault: true,
			Doc: "Added routes not served by the end, per trial."},
		study.Compared(finding.Def{Name: FindingErrors, Unit: finding.UnitRequests, Words: "wrong answers of added routes", Section: SectionServed,
			Doc: "Failed requests to added routes, per trial: any outcome except 200 and, before the first 200, 404."}, finding.SectionOther),
		study.Compared(finding.Def{Name: FindingOldErrors, Unit: finding.UnitRequests, Words: "wrong answers of existing routes", Section: SectionServed,
			Doc: "Failed requests to routes that existed throughout, per trial: any outcome except 200."}, finding.SectionOther),
		study.Compared(finding.Def{Name: FindingReady, Unit: finding.UnitMicroseconds, Words: "time until the gateway serves its first routes", Section: SectionServed,
			Doc: "From sending the Gateway's first object until the watched routes and the last one are served: starting its proxy included."}, finding.SectionOther))
}

func costFindings() []finding.Def {
	cost := func(name, unit, words, doc string) finding.Def {
		return study.Compared(finding.Def{Name: name, Unit: unit, Words: words, Doc: doc, Section: SectionCost}, finding.SectionOther)
	}
	return []finding.Def{
		cost(FindingGatewayCPU, finding.UnitMilliCPU, "CPU of the gateway", "CPU of the gateway's proxy in the window, which requests to its routes use too."),
		cost(FindingControlCPU, finding.UnitMilliCPU, "CPU of the control plane", "CPU of the ingress's control plane in the window."),
		cost(FindingPerChange, finding.UnitPerChange, "CPU of the control plane per change", "CPU time of the ingress's control plane in the window per added route."),
		cost(FindingGatewayMem, finding.UnitBytes, "memory of the gateway", "Memory of the gateway's proxy at the end of the window: proportional set size."),
		cost(FindingControlMem, finding.UnitBytes, "memory of the control plane", "Memory of the control plane at the end of the window: proportional set size."),
	}
}
