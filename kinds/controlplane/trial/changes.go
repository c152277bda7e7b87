package trial

import (
	"context"
	"fmt"
	"slices"

	"github.com/meshtrial/meshtrial/drive/population"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/study"
)

// Changes implements [Kind]. It returns istiod's levers and restarts, the simulated population, and
// the changes to it.
func (controlKind) Changes(ctx context.Context, o *runner.Options, plan *study.Plan) ([]journal.Planned, error) {
	asked, largest, err := asks(plan)
	if err != nil {
		return nil, err
	}
	out, err := o.Control.Plan(ctx, asked.Levers)
	if err != nil {
		return nil, err
	}
	out = append(out, planIstiod(plan))
	return slices.Concat(out, populationPlan(largest), gatewayPlan(plan)), nil
}

// planIstiod returns when istiod's pods end or are added: before trials, which is the normal cost
// of a trial, and in disruptions, which proxies are meant to notice.
func planIstiod(plan *study.Plan) journal.Planned {
	p := journal.Planned{Object: "istiod", Done: "restarted before each trial",
		Note: "while it starts, no proxy receives changes and no pod is injected"}
	if controlplane.Of(plan.Study).Soak {
		p.Done = "restarted before the first trial"
	}
	for _, cell := range plan.Cells {
		level := cell[controlplane.FactorDisruption]
		l, err := controlplane.LevelsOf(cell)
		if err != nil {
			continue
		}
		done, wide := "", ""
		switch l.Disruption.Kind {
		case controlplane.DisruptionRestart:
			done, wide = ", restarted once more in some", "all proxies lose istiod, and connect to a new one at the same time"
		case controlplane.DisruptionKill:
			done, wide = ", killed in some", "all proxies lose istiod at once, and connect to a new one at the same time"
		case controlplane.DisruptionScale:
			done = fmt.Sprintf(", scaled to %d replicas in some", l.Disruption.Replicas)
			wide = "proxies that connect meanwhile may reach a replica that is removed again"
		default:
			continue
		}
		if wide = fmt.Sprintf("%s %s: %s", controlplane.FactorDisruption, level, wide); !slices.Contains(p.Wide, wide) {
			p.Done, p.Wide = p.Done+journal.Done(done), append(p.Wide, wide)
		}
	}
	return p
}

// Asks returns what a plan requires of the installed mesh: levers, and sidecars for its real pods.
func Asks(plan *study.Plan) (mesh.Asked, error) {
	asked, _, err := asks(plan)
	return asked, err
}

// asks also returns the largest population of the plan's cells.
func asks(plan *study.Plan) (asked mesh.Asked, largest population.Sizes, err error) {
	real := controlplane.Of(plan.Study).Traffic != nil
	for _, cell := range plan.Cells {
		l, err := controlplane.LevelsOf(cell)
		if err != nil {
			return asked, largest, runner.Placed(plan, cell, err, "")
		}
		sizes := sizesOf(controlplane.Of(plan.Study), l)
		levers := leversOf(controlplane.Of(plan.Study), cell, sizes)
		asked.Levers = append(asked.Levers, levers)
		if d := l.Disruption; d.Kind == controlplane.DisruptionScale {
			asked.Levers = append(asked.Levers, levers.With(controlplane.FactorIstiodReplicas, fmt.Sprint(d.Replicas)))
		}
		_, named := ambientIn(levers)
		asked.Ztunnels = asked.Ztunnels || l.Ztunnels > 0 && !named
		asked.HBONE = asked.HBONE || l.HBONE && (l.RealPods > 0 || controlplane.Of(plan.Study).Traffic != nil || controlplane.Of(plan.Study).Gateway != nil)
		largest, real = larger(largest, sizes), real || l.RealPods > 0
	}
	if real || controlplane.Of(plan.Study).Gateway != nil { // with the levels of a sidecar
		asked.Proxies = append(asked.Proxies, *mesh.PlainProxy())
	}
	asked.Sent = controlplane.Of(plan.Study).Traffic != nil
	asked.Served = asked.Sent || controlplane.Of(plan.Study).Gateway != nil
	asked.GatewayAPI = controlplane.GatewayAPI(plan)
	if asked.Sent {
		asked.Ports = []int{population.ServicePort}
	}
	return asked, largest, nil
}

// larger returns the larger number of each kind of object.
func larger(a, b population.Sizes) population.Sizes {
	b.Namespaces, b.Services, b.Proxies, b.Gateways = max(a.Namespaces, b.Namespaces), max(a.Services, b.Services), max(a.Proxies, b.Proxies), max(a.Gateways, b.Gateways)
	b.EndpointsPerService, b.Ztunnels = max(a.EndpointsPerService, b.EndpointsPerService), max(a.Ztunnels, b.Ztunnels)
	b.ServiceEntries, b.VirtualServices = max(a.ServiceEntries, b.ServiceEntries), max(a.VirtualServices, b.VirtualServices)
	b.DestinationRules, b.GatewayResources = max(a.DestinationRules, b.DestinationRules), max(a.GatewayResources, b.GatewayResources)
	b.AuthorizationPolicies, b.EndpointSlices = max(a.AuthorizationPolicies, b.AuthorizationPolicies), max(a.EndpointSlices, b.EndpointSlices)
	b.SliceNamespaces = max(a.SliceNamespaces, b.SliceNamespaces)
	return b
}

// populationPlan returns the externally visible parts of a population.
func populationPlan(s population.Sizes) []journal.Planned {
	made := func(what, note string) journal.Planned {
		return journal.Planned{Object: what, Done: journal.Made, Note: note}
	}
	of := "those Services and every change of theirs"
	if s.ServiceEntries > 0 {
		of += fmt.Sprintf(", and %d ServiceEntries", s.ServiceEntries)
	}
	out := []journal.Planned{
		made(fmt.Sprintf("Namespaces %s and on", population.Namespace(0)), fmt.Sprintf("%d, with %d Services of %d simulated pods and %d simulated sidecars; every proxy without a scope, including others', receives %s", max(1, s.Namespaces), s.Services, s.EndpointsPerService, s.Proxies, of)),
		made("simulated Nodes", "run by kwok; of other workloads only DaemonSet pods that tolerate every taint are scheduled there"),
	}
	if s.EndpointSlices > 0 {
		where := "Namespace " + population.SlicesNamespace
		if s.SliceNamespaces > 1 {
			where = fmt.Sprintf("%d Namespaces %s and on", s.SliceNamespaces, population.SlicesNamespace)
		}
		slices := made(where, fmt.Sprintf("%d EndpointSlices with as many headless Services", s.EndpointSlices))
		slices.Wide = []string{fmt.Sprintf("%s %d: every proxy without a scope receives as many more Services", controlplane.FactorEndpointSlices, s.EndpointSlices)}
		out = append(out, slices)
	}
	if n := s.ServiceEntries + s.VirtualServices + s.GatewayResources; n > 0 && s.DummyNamespace != "" && !slices.Contains(ownNamespaces(s), s.DummyNamespace) {
		out = append(out, made("objects in namespace "+s.DummyNamespace, fmt.Sprintf("%d ServiceEntries, %d VirtualServices, %d Gateways", s.ServiceEntries, s.VirtualServices, s.GatewayResources)))
	}
	return out
}

func ownNamespaces(s population.Sizes) (out []string) {
	for i := range max(1, s.Namespaces) {
		out = append(out, population.Namespace(i))
	}
	return out
}
