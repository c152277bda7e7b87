package trial

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/runner"
	"github.com/meshtrial/meshtrial/site"
	"github.com/meshtrial/meshtrial/study"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// proxiesOf says how a mesh's proxies at the place of a part are found.
func proxiesOf(m mesh.Mesh, part string) mesh.Proxies {
	p, _ := record.ProxyOf(part)
	return m.Proxies(p.Place)
}

// containersOf names the containers that make a part's proxy.
func containersOf(m mesh.Mesh, part string) []string { return proxiesOf(m, part).Containers }

// nounOf names a proxy in messages.
func nounOf(part string) string {
	p, _ := record.ProxyOf(part)
	return p.Noun
}

// findShared finds the proxies with pods of their own that the plan's requests
// pass, on the nodes of the run's pods and elsewhere, and waits until they are
// ready.
func (d *deployed) findShared(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, site.ReadyTimeout, fmt.Errorf("it did not come right in %v", site.ReadyTimeout))
	defer cancel()
	d.onNodes, d.others, d.agents = map[string]site.Pod{}, map[string]site.Pod{}, map[string]site.Pod{}
	looked := map[string]bool{} // nodes
	for _, cell := range d.cells {
		for _, part := range study.WayOf(cell) {
			p, _ := record.ProxyOf(part)
			if !p.Place.Shared() {
				continue
			}
			proxies := d.o.Mesh.Proxies(p.Place)
			if len(proxies.Containers) == 0 {
				return fmt.Errorf("mesh %s has no proxy that is %s", d.o.Mesh.Name(), p.Noun)
			}
			if p.Place != record.PlaceNode {
				if proxies.Namespace == "" { // those of the run alone
					proxies.Namespace = d.Namespace
				}
				if err := d.find(ctx, d.others, part, p.Place, proxies, ""); err != nil {
					return err
				}
				continue
			}
			if err := d.findOnNodes(ctx, proxies, looked); err != nil {
				return err
			}
		}
	}
	return d.findAgents(ctx)
}

// findAgents finds what redirects the requests of pods with sidecars, where these leave
// that to their nodes' agents, which were not looked for with proxies of nodes.
func (d *deployed) findAgents(ctx context.Context) error {
	if len(d.onNodes) > 0 || !slices.ContainsFunc(d.Pods(), func(pod site.Pod) bool { return pod.Redirected }) {
		return nil
	}
	for _, node := range d.nodesToo() {
		if err := d.findAgent(ctx, d.o.Mesh.Proxies(record.PlaceNode).Agents, node); err != nil {
			return err
		}
	}
	return nil
}

// findOnNodes finds the proxies of nodes that have not been looked at yet, and what brings
// pods to them. No request passes those of nodes without a pod of the run.
func (d *deployed) findOnNodes(ctx context.Context, proxies mesh.Proxies, looked map[string]bool) error {
	own := map[string]bool{}
	for _, pod := range d.Pods() {
		own[pod.Node] = true
	}
	for _, node := range d.nodesToo() {
		if looked[node] {
			continue
		}
		looked[node] = true
		var err error
		if own[node] {
			err = d.find(ctx, d.onNodes, node, record.PlaceNode, proxies, node)
		} else {
			err = d.findBeside(ctx, d.onNodes, record.PlaceNode, proxies, node, "the mesh's proxy")
		}
		if err != nil {
			return err
		}
		if _, there := d.onNodes[node]; !there {
			continue // nor would its agent be
		}
		if err := d.findAgent(ctx, proxies.Agents, node); err != nil {
			return err
		}
	}
	return nil
}

// nodesToo are the nodes of the run's pods, and those that share a machine with them:
// whoever accounts for that looks at all of them.
func (d *deployed) nodesToo() []string {
	here := map[string][]observe.Target{}
	for _, node := range d.nodes() {
		here[node] = nil
	}
	d.WithNodesHere(here)
	return slices.Sorted(maps.Keys(here))
}

// agentWait bounds the look for what no request depends on.
const agentWait = 5 * time.Second

// findAgent notes the pod of what brings pods to a node's proxy, or to their sidecars. No
// request depends on it: trials lack its use where it is not found, which is told.
func (d *deployed) findAgent(ctx context.Context, agents mesh.Agents, node string) error {
	if len(agents.Containers) == 0 {
		return nil
	}
	return d.findBeside(ctx, d.agents, "", mesh.Proxies{Namespace: agents.Namespace, Selector: agents.Selector}, node, "the mesh's agent")
}

// findBeside is find for a pod of a node that may have died with it: it gives up soon, and
// says so.
func (d *deployed) findBeside(ctx context.Context, into map[string]site.Pod, at record.Place, proxies mesh.Proxies, node, what string) error {
	limited, cancel := context.WithTimeoutCause(ctx, agentWait, fmt.Errorf("it did not come right in %v", agentWait))
	defer cancel()
	err := d.find(limited, into, node, at, proxies, node)
	if err == nil || ctx.Err() != nil {
		return err
	}
	delete(into, node)
	d.tell(runner.Event{Stage: "deploy", Text: fmt.Sprintf("what %s on node %s uses is not measured: %v", what, node, err)})
	return nil
}

// find notes the pod of a proxy at a place under a key, once. It waits for one that is not
// ready, or does not answer, yet, but not for what does not change.
func (d *deployed) find(ctx context.Context, into map[string]site.Pod, key string, at record.Place, proxies mesh.Proxies, node string) error {
	if _, known := into[key]; known {
		return nil
	}
	var last error
	for {
		pod, err := d.FindProxy(ctx, proxies, node)
		if err == nil {
			into[key] = pod
			return mesh.Fits(d.o.Mesh, at, pod.State)
		}
		if last == nil || ctx.Err() == nil { // else the end of the wait would pass for the cause
			last = err
		}
		if !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err) && !errors.Is(err, site.ErrUnobserved) {
			ended := wake.Pause(ctx, toldLook)
			if ended == nil {
				continue
			}
			last = fmt.Errorf("%w: %w", last, ended)
		}
		return d.Unready(ctx, proxies, last)
	}
}

// wayOf is the way of a cell's requests between two pods, and the pod of each
// proxy there is: of the way, and sidecars of the two that should not be there.
func (d *deployed) wayOf(cell record.Cell, client, server site.Pod) (record.Way, map[string]site.Pod, error) {
	way := study.WayOf(cell)
	if client.Node == server.Node {
		way = way.OnOneNode()
	}
	pods := map[string]site.Pod{}
	for part, pod := range map[string]site.Pod{record.PartClientProxy: client, record.PartServerProxy: server} {
		if pod.Proxy != nil {
			pods[part] = pod
		}
	}
	for _, part := range way {
		p, _ := record.ProxyOf(part)
		if !p.Place.Shared() {
			continue
		}
		pod, ok := d.others[part]
		if p.Place == record.PlaceNode {
			node := server.Node
			if p.Side == record.SideClient {
				node = client.Node
			}
			pod, ok = d.onNodes[node]
		}
		if !ok {
			return nil, nil, fmt.Errorf("cell %s: %s is not there", cell.Key(), p.Noun)
		}
		pods[part] = pod
	}
	return way, pods, nil
}

// has says that a further hand has brought a proxy along already: one of a node
// serves all hands there, and is counted once.
func (t *trialRun) has(part string, pod site.Pod) bool {
	for name, there := range t.more {
		if partOf(name) == part && there.UID == pod.UID {
			return true
		}
	}
	return false
}

// agentServes says that the trial's pods leave it to the agents to lead requests to their
// sidecars.
func (t *trialRun) agentServes() bool {
	return t.server.pod.Redirected || slices.ContainsFunc(t.hands, func(h *hand) bool { return h.pod.Redirected })
}

// setBeside notes the proxies of the trial's nodes that its requests do not pass, and
// what brings pods to any of them.
func (t *trialRun) setBeside() {
	t.beside, t.agents = map[string]site.Pod{}, map[string]site.Pod{}
	passed := map[string]bool{}
	for _, pods := range []map[string]site.Pod{t.proxies, t.more} {
		for _, pod := range pods {
			passed[pod.UID] = true
		}
	}
	nodes := map[string][]observe.Target{t.server.pod.Node: nil}
	for _, h := range t.hands {
		nodes[h.pod.Node] = nil
	}
	if t.d.Site != nil {
		t.d.WithNodesHere(nodes)
	}
	for node := range nodes {
		if pod, ok := t.d.onNodes[node]; ok && !passed[pod.UID] {
			t.beside[node] = pod
		}
		if pod, ok := t.d.agents[node]; ok {
			t.agents[node] = pod
		}
	}
}
