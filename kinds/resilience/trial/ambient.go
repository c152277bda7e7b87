package trial

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/graph"
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
	var err error
	t.onNodes.before, err = nodeCounters(ctx, t.onNodes.pods, proxies.Stats)
	return err
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
	rise := map[string]float64{}
	for name, v := range after {
		rise[name] = v - t.onNodes.before[name]
	}
	t.out.Scenario.NodeProxies = len(t.onNodes.pods)
	t.evidence.Carried, err = t.scene.carried(rise, scheduled+t.clients.unanswered, completed)
	return err
}

// carried checks for each service in the mesh, by how far the counters of nodes'
// proxies rose, that at least the completed requests to it passed them; of the others
// nobody knows how far they came.
func (s *scene) carried(rise map[string]float64, scheduled, completed int64) ([]record.Check, error) {
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
		checks := s.mesh.Verify(mesh.Evidence{Cell: weighing(s.cell), Endpoint: mesh.Endpoint{Service: one.Name, Namespace: s.namespace, Opaque: true},
			Requests: requests, Unknown: unknown, Connections: most, Probes: most - least, Way: record.Way{record.PartNode}, Proxies: map[string]*mesh.Passed{record.PartNode: {Rise: rise}}})
		for _, c := range checks {
			if !strings.HasSuffix(c.Name, "-sidecar") { // pods without any are not looked at one by one
				c.Name = one.Name + "-" + c.Name
				out = append(out, c)
			}
		}
	}
	return out, nil
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
