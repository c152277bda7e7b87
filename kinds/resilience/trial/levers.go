package trial

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/meshtrial/meshtrial/drive/fault/drive"
	"github.com/meshtrial/meshtrial/internal/ending"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/kinds/resilience/verdict"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/study/protocol"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// callers returns the pods with a proxy that send requests: clients, and pods of services that call
// others.
func (t *scenarioTrial) callers() []*resident {
	var out []*resident
	for _, w := range t.scene.workloads() {
		one, ok := t.scene.scenario.Graph.Service(w.Name)
		if w.Proxy != nil && (!ok || len(one.Calls) > 0) {
			out = append(out, t.census.living(w.Name)...)
		}
	}
	return out
}

// admin returns a client for the admin port of a pod's proxy.
func (t *scenarioTrial) admin(r *resident) mesh.Admin {
	sidecars := mesh.Sidecars(t.scene.mesh)
	return sidecars.Admin(t.Dialer.Client(t.Namespace, r.Name, sidecars.AdminPort))
}

// findSidecars reads the sidecars' version, once per run.
func (t *scenarioTrial) findSidecars(ctx context.Context) error {
	if len(t.seen) > 0 || !t.scene.meshed() || mesh.Sidecars(t.scene.mesh).AdminPort == 0 {
		return nil
	}
	callers := t.callers()
	if len(callers) == 0 {
		return nil
	}
	ref, err := t.NewPod(ctx, callers[0].volatile, t.scene.mesh) // all sidecars come from the same template
	if err != nil {
		return err
	}
	t.seen = append(t.seen, ref)
	return nil
}

// Limits of the wait for levers.
const (
	leverTime  = 30 * time.Second
	leverEvery = 250 * time.Millisecond
	leverMany  = 16 // proxies queried concurrently
)

// proveLevers waits until every proxy has the cell's levers in force, and records what each proxy
// has.
func (t *scenarioTrial) proveLevers(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, leverTime)
	defer cancel()
	if m, ok := able[mesh.PolicyChecker](t.scene); ok {
		return t.provePolicies(limited, m)
	}
	m, ok := able[mesh.ConfigChecker](t.scene)
	if !ok {
		return nil
	}
	group, groupCtx := errgroup.WithContext(limited)
	group.SetLimit(leverMany)
	var asked []*verdict.Proxy
	prove := func(r *resident, path string, by func(answer []byte) []record.Check) {
		seen := &verdict.Proxy{Pod: r.Name}
		asked = append(asked, seen)
		group.Go(func() (err error) {
			seen.Checks, err = untilHeld(groupCtx, func(ctx context.Context) ([]record.Check, error) {
				answer, err := t.admin(r).Get(ctx, path, nil)
				if err != nil {
					return nil, fmt.Errorf("proxy of %s: %w", r.Name, err)
				}
				return by(answer), nil
			})
			return err
		})
	}
	for _, r := range t.callers() {
		routes := t.routesOf(r.Service)
		if near, ok := m.(mesh.LocalityChecker); ok && setsLocality(t.scene.cell) {
			zone, err := t.zoneOf(limited, r.Node)
			if err != nil {
				return err
			}
			prove(r, near.LocalityPath(t.scene.cell), func(endpoints []byte) []record.Check {
				return near.CheckLocality(endpoints, zone, routes, t.scene.cell)
			})
		}
		prove(r, m.ConfigPath(), func(config []byte) []record.Check {
			return m.CheckTraffic(config, routes, t.scene.cell, t.scene.keepsLedger())
		})
	}
	// The default of what proxies accept does not matter.
	if servers, ok := m.(mesh.ServerChecker); ok && t.scene.levels.MTLS != study.MTLSPermissive {
		for i := range t.scene.scenario.Graph.Services {
			one := &t.scene.scenario.Graph.Services[i]
			port := protocol.Of(one.Protocol).Plain.Port
			if one.Gateway || t.scene.workload(one).Proxy == nil {
				continue
			}
			for _, r := range t.census.living(one.Name) {
				prove(r, m.ConfigPath(), func(config []byte) []record.Check { return servers.CheckServer(config, port, t.scene.cell) })
			}
		}
	}
	if entry, _ := t.scene.scenario.Graph.Service(t.scene.scenario.Entry); study.ParseSettings(t.scene.cell[study.FactorCallout])["filter"] != "" {
		asking, ok := m.(mesh.CalloutChecker)
		if !ok {
			return fmt.Errorf("mesh %s cannot prove factor %s", t.scene.mesh.Name(), study.FactorCallout)
		}
		w, port := t.scene.workload(&entry), protocol.Of(t.scene.levels.Protocol).Plain.Port
		for _, r := range t.census.living(entry.Name) {
			prove(r, m.ConfigPath(), func(config []byte) []record.Check { return asking.CheckCallout(config, port, w) })
		}
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("prove the levers: %w", err)
	}
	for _, seen := range asked {
		t.evidence.Proxies = append(t.evidence.Proxies, *seen)
	}
	return nil
}

// provePolicies waits until the control plane sends proxies the cell's levers, and records what it
// sends.
func (t *scenarioTrial) provePolicies(ctx context.Context, m mesh.PolicyChecker) error {
	var routes []mesh.Route
	for _, r := range t.callers() {
		for _, route := range t.routesOf(r.Service) {
			if !slices.Contains(routes, route) {
				routes = append(routes, route)
			}
		}
	}
	checks, err := untilHeld(ctx, func(ctx context.Context) ([]record.Check, error) {
		return m.CheckPolicies(ctx, routes, t.scene.cell)
	})
	if err != nil {
		return fmt.Errorf("prove the levers: %w", err)
	}
	t.evidence.Policies = checks
	return nil
}

// untilHeld polls until all checks hold or the time is up, and returns those that were read last.
func untilHeld(ctx context.Context, ask func(context.Context) ([]record.Check, error)) (checks []record.Check, err error) {
	for {
		asking, cancel := ending.Within(ctx, site.StopTimeout)
		now, err := ask(asking)
		cancel()
		if err == nil {
			checks = now
			if !slices.ContainsFunc(now, func(c record.Check) bool { return !c.OK }) {
				return now, nil
			}
		}
		if wake.Pause(ctx, leverEvery) != nil {
			if checks != nil {
				return checks, nil
			}
			return nil, err
		}
	}
}

// setsLocality reports whether a cell sets the endpoints that proxies prefer.
func setsLocality(cell record.Cell) bool {
	v := cell[study.FactorLocality]
	_, weighs := study.OwnZone(v)
	return v == study.LocalityPrefer || v == study.LocalityIgnore || weighs
}

// zoneOf returns a node's zone as REGION/ZONE.
func (t *scenarioTrial) zoneOf(ctx context.Context, name string) (string, error) {
	node, err := t.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("the zone of node %s, for factor %s: %w", name, study.FactorLocality, err)
	}
	return node.Labels[corev1.LabelTopologyRegion] + "/" + node.Labels[corev1.LabelTopologyZone], nil
}

// routesOf returns the ports that a service's pods call.
func (t *scenarioTrial) routesOf(service string) []mesh.Route {
	g := t.scene.scenario.Graph
	one, ok := g.Service(service)
	if !ok { // the clients
		entry, _ := g.Service(t.scene.scenario.Entry)
		return []mesh.Route{{Name: entry.Name, Namespace: t.Namespace, Port: protocol.Of(t.scene.levels.Protocol).Plain.Port}}
	}
	if one.Gateway {
		return []mesh.Route{t.scene.forwarded(one)}
	}
	var out []mesh.Route
	for _, call := range one.Calls {
		to, _ := g.Service(call.To)
		route := mesh.Route{Name: to.Name, Namespace: t.Namespace, Port: protocol.Of(to.Protocol).Plain.Port}
		if !slices.Contains(out, route) {
			out = append(out, route)
		}
	}
	return out
}

// sense returns the evaluator of step conditions; nil if there are none to evaluate.
func (t *scenarioTrial) sense() drive.Sense {
	if t.o.Condition == nil {
		return nil
	}
	var mu sync.Mutex
	compiled := map[string]func(record.Moment) (bool, error){}
	return func(ctx context.Context, expr string) (bool, error) {
		mu.Lock() // a compiled condition is not safe for concurrent use
		defer mu.Unlock()
		holds := compiled[expr]
		if holds == nil {
			var err error
			if holds, err = t.o.Condition(expr); err != nil {
				return false, err
			}
			compiled[expr] = holds
		}
		m, err := t.clients.moment(ctx)
		if err != nil {
			return false, err
		}
		m.Ready, m.Ejected = t.looks.now()
		return holds(m)
	}
}

// now returns the latest sample.
func (l *looks) now() (ready, ejected map[string]int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.samples); n > 0 {
		return l.samples[n-1].Ready, l.samples[n-1].Ejected
	}
	return nil, nil
}
