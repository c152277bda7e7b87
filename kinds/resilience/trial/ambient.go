package trial

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/errs"
	"github.com/meshtrial/meshtrial/graph"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/site"
	"github.com/meshtrial/meshtrial/study"
)

// nodeProxies are the proxies on nodes that carry a trial's requests, and their counters
// before any; empty where there are none.
type nodeProxies struct {
	pods   []site.Pod
	before map[string]float64
	// waypoint is the one before all services, as a list of one or none, and passed its
	// counters when all warm requests had passed it.
	waypoint []site.Pod
	passed   map[string]float64
}

// ambient says that proxies on nodes carry the requests of the cell's services.
func (s *scene) ambient() bool { return study.Ambient(s.cell) }

// findNodeProxies finds the proxies of the nodes on which pods of the mesh live.
func (t *scenarioTrial) findNodeProxies(ctx context.Context) error {
	if !t.scene.ambient() {
		return nil
	}
	nodes := map[string]bool{}
	for _, w := range t.scene.workloads() {
		for _, r := range t.census.living(w.Name) {
			if w.Carrier != "" {
				nodes[r.Node] = true
			}
		}
	}
	proxies := t.scene.mesh.Proxies(record.PlaceNode)
	for _, node := range slices.Sorted(maps.Keys(nodes)) {
		pod, err := t.FindProxy(ctx, proxies, node)
		if err != nil {
			return err
		}
		t.onNodes.pods = append(t.onNodes.pods, pod)
	}
	if study.Waypoint(t.scene.cell) {
		if err := t.findWaypoint(ctx); err != nil {
			return err
		}
	}
	var err error
	t.onNodes.before, err = nodeCounters(ctx, t.onNodes.pods, proxies.Stats)
	return err
}

// waypoints says how the trial's waypoint is found.
func (t *scenarioTrial) waypoints() mesh.Proxies {
	proxies := t.scene.mesh.Proxies(record.PlaceWaypoint)
	proxies.Namespace = cmp.Or(proxies.Namespace, t.Namespace)
	return proxies
}

// findWaypoint waits until the mesh has made the waypoint that the trial's objects ask
// for.
func (t *scenarioTrial) findWaypoint(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, site.ReadyTimeout)
	defer cancel()
	for proxies := t.waypoints(); ; {
		pod, err := t.FindProxy(limited, proxies, "")
		switch {
		case err == nil:
			t.onNodes.waypoint = []site.Pod{pod}
			return nil
		case wake.Pause(limited, roleEvery) == nil:
		case ctx.Err() != nil:
			return ctx.Err()
		case proxies.Hint != "":
			return errs.WithHint(err, "%s", proxies.Hint)
		default:
			return err
		}
	}
}

// readWaypoint reads the counters of the waypoint; nil where there is none.
func (t *scenarioTrial) readWaypoint(ctx context.Context) (map[string]float64, error) {
	if len(t.onNodes.waypoint) == 0 {
		return nil, nil
	}
	return nodeCounters(ctx, t.onNodes.waypoint, t.waypoints().Stats)
}

// removeWaypoint takes away what the mesh made of the trial's waypoint, of which the trial
// has taken away what asked for it, and waits until its pod is gone: the next one is a
// fresh one.
func (t *scenarioTrial) removeWaypoint(ctx context.Context) error {
	if !study.Waypoint(t.job.Cell) {
		return nil
	}
	background := metav1.DeleteOptions{PropagationPolicy: site.Ptr(metav1.DeletePropagationBackground)}
	now := metav1.DeleteOptions{GracePeriodSeconds: site.Ptr(int64(0))}
	its := metav1.ListOptions{LabelSelector: t.waypoints().Selector}
	apps, core := t.Kube.AppsV1(), t.Kube.CoreV1()
	for {
		err := errors.Join(apps.Deployments(t.Namespace).DeleteCollection(ctx, background, its), apps.ReplicaSets(t.Namespace).DeleteCollection(ctx, background, its),
			core.Pods(t.Namespace).DeleteCollection(ctx, now, its))
		if err != nil {
			return fmt.Errorf("remove the waypoint: %w", err)
		}
		pods, err := core.Pods(t.Namespace).List(ctx, its)
		if err != nil || len(pods.Items) == 0 {
			return err
		}
		if err := wake.Pause(ctx, roleEvery); err != nil {
			return fmt.Errorf("the waypoint does not end: %w", err)
		}
	}
}

// nodeCounters are the counters of all proxies on nodes together.
func nodeCounters(ctx context.Context, pods []site.Pod, filter string) (map[string]float64, error) {
	all := map[string]float64{}
	for _, pod := range pods {
		if pod.Proxy == nil {
			return nil, fmt.Errorf("pod %s of node %s has no proxy that could be asked", pod.Name, pod.Node)
		}
		stats, err := pod.Proxy.Stats(ctx, filter)
		if err != nil {
			return nil, fmt.Errorf("counters of %s on node %s: %w", pod.Name, pod.Node, err)
		}
		for name, v := range stats.Counters {
			all[name] += v
		}
	}
	return all, nil
}

// checkNodeProxies notes whether the requests to each service in the mesh passed the
// proxies of nodes, by their own counters. They are asked once the load has ended, and
// were before any requests flowed: those of the warm-up are among what they count.
func (t *scenarioTrial) checkNodeProxies(ctx context.Context, scheduled, completed int64) error {
	if !t.scene.ambient() {
		return nil
	}
	after, err := nodeCounters(ctx, t.onNodes.pods, t.scene.mesh.Proxies(record.PlaceNode).Stats)
	if err != nil {
		return err
	}
	passed, err := t.readWaypoint(ctx)
	if err != nil {
		return err
	}
	t.out.Scenario.NodeProxies = len(t.onNodes.pods)
	t.evidence.Carried, err = t.scene.carried(risen(after, t.onNodes.before), risen(passed, t.onNodes.passed), scheduled+t.clients.unanswered, completed)
	return err
}

// risen is how far counters rose; nil of none.
func risen(after, before map[string]float64) map[string]float64 {
	if after == nil {
		return nil
	}
	rise := map[string]float64{}
	for name, v := range after {
		rise[name] = v - before[name]
	}
	return rise
}

// carried checks for each service in the mesh, by how far the counters of nodes'
// proxies rose, that at least the completed requests to it passed them; of the others
// nobody knows how far they came. A waypoint must have passed each of them on.
func (s *scene) carried(rise, waypoint map[string]float64, scheduled, completed int64) ([]record.Check, error) {
	flow, err := s.scenario.Graph.Flow(graph.Load{Entry: s.scenario.Entry, RPS: 1})
	if err != nil {
		return nil, err
	}
	var out []record.Check
	for i, one := range s.scenario.Graph.Services {
		if s.workload(&s.scenario.Graph.Services[i]).Carrier == "" {
			continue
		}
		requests := int64(flow.Services[i].Visits * float64(completed))
		// Clients keep so many connections, and open them for the warm-up and again. How
		// many services open to each other is theirs to say: one at least, one a request at
		// most.
		each := int64(s.scenario.Clients * s.levels.Connections)
		least, most := int64(1), requests+2*each
		if one.Name == s.scenario.Entry {
			least = each
		}
		// One without an answer may have failed at any of its calls.
		unknown := int64(math.Ceil(max(1, flow.Services[i].Visits) * float64(scheduled-completed)))
		e := mesh.Evidence{Cell: weighing(s.cell), Endpoint: mesh.Endpoint{Service: one.Name, Namespace: s.namespace, Opaque: true},
			Requests: requests, Unknown: unknown, Connections: most, Probes: most - least, Way: record.Way{record.PartNode}, Proxies: map[string]*mesh.Passed{record.PartNode: {Rise: rise}}}
		if study.Waypoint(s.cell) {
			s.throughWaypoint(&e, one, waypoint)
		}
		for _, c := range s.mesh.Verify(e) {
			if !strings.HasSuffix(c.Name, "-sidecar") { // pods without any are not looked at one by one
				c.Name = one.Name + "-" + c.Name
				out = append(out, c)
			}
		}
	}
	return out, nil
}

// throughWaypoint makes it evidence of a way by a waypoint, which counts requests. Where
// chance or repetition has a say in how many come to a service, they are known roughly.
func (s *scene) throughWaypoint(e *mesh.Evidence, one graph.Service, rise map[string]float64) {
	e.Way, e.Proxies[record.PartWaypoint] = append(e.Way, record.PartWaypoint), &mesh.Passed{Rise: rise}
	ports := s.portsOf(one) // of the entry the last is the clients'
	e.Endpoint.Opaque, e.Endpoint.Port = false, ports[len(ports)-1].Port
	varies := func(from graph.Service) bool {
		return slices.ContainsFunc(from.Calls, func(c graph.Call) bool { return c.Retries > 0 || c.Probability < 1 })
	}
	if slices.ContainsFunc(s.scenario.Graph.Services, varies) {
		e.Requests, e.Unknown = e.Requests/2, e.Unknown+2*e.Requests
	}
}

// weighing is a cell whose requests weigh something where they have no body: their heads
// do.
func weighing(cell record.Cell) record.Cell {
	const head = "60B" // less than the shortest that clients and workers send
	if cell[study.FactorPayload] == "0B" {
		return cell.With(record.Cell{study.FactorPayload: head})
	}
	return cell
}
