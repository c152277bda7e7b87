package trial

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/drive/population"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/kinds/controlplane/verdict"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/site"
)

// asked returns what the cell and the study request, where rules depend on it.
func (t *controlTrial) asked() verdict.Asked {
	age := time.Duration(0)
	if t.levers.Named(controlplane.FactorConnectionAge) {
		age = t.levels.ConnectionAge
	}
	return verdict.Asked{ConnectionAge: age, Clients: t.levels.Clients, DebounceAfter: t.levels.DebounceAfter, EDSDebounce: t.levels.EDSDebounce,
		Settle: controlplane.Of(t.c.study).Settle, ScopeNamespace: t.levers.Namespaces[0]}
}

// audience lists the proxies that may need the changes, simulated ones first, according to what the
// levers let them see.
func (t *controlTrial) audience() verdict.Audience {
	a := audienceOf(t.levels, t.known)
	a.Simulated = len(t.ids)
	for _, p := range t.ids {
		a.Proxies = append(a.Proxies, verdict.Proxy{Type: p.Type, Name: p.Name, Namespace: p.Namespace, Workload: p.Workload})
	}
	workload := t.realWorkload()
	for _, p := range t.c.reals {
		a.Proxies = append(a.Proxies, verdict.Proxy{Type: population.Sidecar, Name: p.Name, Namespace: p.Namespace, Workload: workload})
	}
	if traffic := controlplane.Of(t.c.study).Traffic; traffic != nil {
		a.Unwatched = 2*traffic.Endpoints + 1 // former and current endpoints, and the caller
	}
	if t.c.gateway != nil {
		a.Unwatched++
	}
	for _, c := range t.plan.Changes {
		a.Scopes = append(a.Scopes, c.Scope)
	}
	return a
}

// realWorkload returns the workload of the real pods.
func (t *controlTrial) realWorkload() string {
	return cmp.Or(t.c.realServes(t.levels, t.known), site.RoleReal)
}

// audienceOf returns what the levers let proxies see.
func audienceOf(l controlplane.Levels, levers mesh.Levers) verdict.Audience {
	return verdict.Audience{ExportTo: l.ExportTo, SidecarScope: l.SidecarScope, EgressHosts: levers.Hosts(),
		Namespaces: levers.Namespaces, Workload: levers.Workload[population.AppLabel]}
}

// sight collects which proxies had which change by now, or by the end of the window if it has one:
// later changes are excluded from its costs too.
func (t *controlTrial) sight(ctx context.Context) error {
	if len(t.ids) > 0 {
		markers, err := t.fleet.sightings(ctx)
		if err != nil {
			return fmt.Errorf("sightings of the simulated sidecars: %w", err)
		}
		t.seen.Markers = markers
	}
	t.seen.Envoys = t.envoys.sightings(int32(len(t.ids)))
	end := time.Now()
	if t.out.Window.Seconds > 0 {
		end = windowEnd(t.out.Window)
	}
	t.seen.EndNS = end.UnixNano()
	return nil
}

// windowEnd returns when a window ended.
func windowEnd(w record.Window) time.Time {
	return w.Start.Add(time.Duration(w.Seconds * float64(time.Second)))
}

// collect builds the trial's record from counters, and reads what is still missing.
func (t *controlTrial) collect(ctx context.Context) {
	c := t.out.Control
	c.Proxies, c.Gateways, c.Ztunnels, c.RealProxies = t.levels.Proxies, t.levels.Gateways, t.levels.Ztunnels, len(t.c.reals)
	t.seen.Before, t.seen.After = t.before.replicas(), t.after.replicas()
	t.seen.ScalersBefore, t.seen.ScalersAfter = t.before.scalers, t.after.scalers
	if err := observe.FillControl(c, t.before.scrape, t.after.scrape); err != nil {
		t.seen.Unread = append(t.seen.Unread, record.Check{Name: "istiod-metrics", Detail: err.Error()})
	}
	if controlplane.Of(t.c.study).Soak {
		c.Life, c.SidecarLife = lifeOf(t.seen.Before), t.sidecarLife()
	}
	t.costAPIServer(c)
	t.costs()
	if t.weighsSidecars() {
		c.Sidecars = t.sidecars()
	}
	t.seen.Logs = t.readLogs(ctx)
	t.seen.Levers = t.c.mesh.Check(ctx, t.levers, t.leverEvidence())
	if len(t.c.reals) > 0 && t.c.study.Measured(controlplane.MeasureConvergence) {
		t.seen.EnvoysEvery = max(envoyEvery, time.Duration(t.envoys.pause.Load()))
	}
}

// costs turns the snapshots into CPU, memory and pressure, also of istiod while nothing changed.
func (t *controlTrial) costs() {
	window := map[string]site.Shots{}
	for node, targets := range t.targets {
		window[node] = site.Shots{Before: t.windowStart[node], After: t.windowEnd[node]}
		for _, target := range targets {
			if partIn(target.Name) != record.PartControl || t.idleEnd == nil {
				continue
			}
			before, after := t.idleStart[node], t.idleEnd[node]
			if idle, err := after.Targets[target.Name].Since(before.Targets[target.Name]); err == nil {
				t.out.Control.Idle = t.out.Control.Idle.Plus(idle)
				t.out.Control.IdleSeconds = float64(after.EndNS-before.EndNS) / 1e9
			}
		}
	}
	t.seen.Unread = append(t.seen.Unread, t.c.Account(&t.out, t.targets, window, partIn, t.fleet.Pods[0].Node, t.host)...)
}

// findNodes records the nodes of the trial's pods, and the machines of those nodes.
func (t *controlTrial) findNodes(ctx context.Context) error {
	pods, err := t.c.mesh.Pods(ctx)
	if err != nil {
		return err
	}
	on := map[string][]string{}
	for _, p := range pods {
		on[record.PartControl] = append(on[record.PartControl], p.Node)
	}
	for _, p := range t.fleet.Pods {
		on[record.PartSimulator] = append(on[record.PartSimulator], p.Node)
	}
	for _, p := range t.c.reals {
		on[record.PartServerProxy] = append(on[record.PartServerProxy], p.Node)
	}
	if g := t.c.gateway; g != nil {
		on[record.PartGateway], on[record.PartWorker] = []string{g.pod.Node}, []string{g.backend.Node}
	}
	t.out.Nodes = t.c.NodesOf(ctx, on)
	return nil
}

// partIn returns the part that a target belongs to. Targets of several pods are numbered.
func partIn(target string) string {
	part, _, _ := strings.Cut(target, "-")
	return part
}
