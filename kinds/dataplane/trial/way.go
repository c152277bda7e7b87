package trial

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/study"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// proxiesOf says how to find the mesh's proxies of a part.
func proxiesOf(m mesh.Mesh, part string) mesh.Proxies {
	p, _ := record.ProxyOf(part)
	return m.Proxies(p.Place)
}

// containersOf names the containers that make up a part's proxy.
func containersOf(m mesh.Mesh, part string) []string { return proxiesOf(m, part).Containers }

// nounOf names a proxy in messages.
func nounOf(part string) string {
	p, _ := record.ProxyOf(part)
	return p.Noun
}

// findShared finds the proxies with their own pods that the plan's requests pass, on the nodes of
// the run's pods and elsewhere, and waits until they are ready.
func (d *deployed) findShared(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, site.ReadyTimeout, fmt.Errorf("it did not become ready within %v", site.ReadyTimeout))
	defer cancel()
	d.onNodes, d.others = map[string]site.Pod{}, map[string]site.Pod{}
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
				if proxies.Namespace == "" { // those that belong to the run
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
	return nil
}

// findOnNodes finds the proxies of nodes that have not been visited yet. Those of nodes without a
// client or a server are on no cell's way.
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
			err = d.findBeside(ctx, proxies, node)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// nodesToo returns the nodes of the run's pods, and those that share a machine with them: an
// account of that machine needs all of them.
func (d *deployed) nodesToo() []string {
	here := map[string][]observe.Target{}
	for _, node := range d.nodes() {
		here[node] = nil
	}
	d.WithNodesHere(here)
	return slices.Sorted(maps.Keys(here))
}

// idleWait limits the search for a proxy that no request depends on, and the reading of its counters.
const idleWait = 5 * time.Second

// findBeside is find for a node proxy that may have died with its node: it gives up soon, and
// reports that.
func (d *deployed) findBeside(ctx context.Context, proxies mesh.Proxies, node string) error {
	limited, cancel := context.WithTimeoutCause(ctx, idleWait, fmt.Errorf("it did not become ready within %v", idleWait))
	defer cancel()
	err := d.find(limited, d.onNodes, node, record.PlaceNode, proxies, node)
	if err == nil || ctx.Err() != nil {
		return err
	}
	delete(d.onNodes, node)
	d.tell(runner.Event{Stage: "deploy", Text: fmt.Sprintf("the mesh's proxy on node %s is not measured: %v", node, err)})
	return nil
}

// find waits for a proxy and records its pod under a key, once.
func (d *deployed) find(ctx context.Context, into map[string]site.Pod, key string, at record.Place, proxies mesh.Proxies, node string) error {
	if _, known := into[key]; known {
		return nil
	}
	pod, err := d.AwaitProxy(ctx, d.FindProxy, proxies, node)
	if err != nil {
		return err
	}
	into[key] = pod
	return mesh.Fits(d.o.Mesh, at, pod.State)
}

// wayOf returns the way of a cell's requests between two pods, with the pod of each existing proxy:
// those on the way, and sidecars of the two that should not exist.
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

// passed returns the proxies that the requests of some hand pass, by part, and by part and hand.
func (t *trialRun) passed() map[string]site.Pod {
	out := maps.Clone(t.more)
	if out == nil {
		out = map[string]site.Pod{}
	}
	maps.Copy(out, t.proxies)
	return out
}

func (t *trialRun) ownNodes() map[string]bool {
	out := map[string]bool{t.server.pod.Node: true}
	for _, h := range t.hands {
		out[h.pod.Node] = true
	}
	return out
}

// passedNodes returns ownNodes and the nodes of the waypoint or gateway on the way.
func (t *trialRun) passedNodes() map[string]bool {
	out := t.ownNodes()
	for _, pod := range t.passed() {
		out[pod.Node] = true
	}
	return out
}

// has reports whether a hand already has this proxy: a node proxy serves all hands there, and is
// counted once.
func (t *trialRun) has(part string, pod site.Pod) bool {
	for name, there := range t.passed() {
		if partOf(name) == part && there.UID == pod.UID {
			return true
		}
	}
	return false
}

// nodes returns the nodes of the trial's pods, and those that share a machine with them.
func (t *trialRun) nodes() []string {
	out := map[string][]observe.Target{}
	for node := range t.ownNodes() {
		out[node] = nil
	}
	if t.d.Site != nil {
		t.d.WithNodesHere(out)
	}
	return slices.Sorted(maps.Keys(out))
}

// setBeside records the proxies of the trial's nodes that its requests do not pass.
func (t *trialRun) setBeside() {
	t.beside = map[string]site.Pod{}
	passed := map[string]bool{}
	for _, pod := range t.passed() {
		passed[pod.UID] = true
	}
	for _, node := range t.nodes() {
		if pod, ok := t.d.onNodes[node]; ok && !passed[pod.UID] {
			t.beside[node] = pod
		}
	}
}

// renewBeside finds proxies beside the way that were replaced since they were found: a replacement
// before the trial does not affect the trial. Until the new proxy exists the old one stays, which
// does not answer: the trial then lacks the figures of all, and the next trial searches again.
func (t *trialRun) renewBeside(ctx context.Context) {
	if len(t.beside) == 0 {
		return
	}
	nodes, err := t.replaced(ctx)
	if err != nil {
		return // whether they exist shows by whether they answer
	}
	for _, node := range nodes {
		old := t.beside[node]
		delete(t.d.onNodes, node)
		_ = t.d.findBeside(ctx, t.o.Mesh.Proxies(record.PlaceNode), node) // it reports the failure, unless the trial is over
		if fresh, found := t.d.onNodes[node]; found {
			t.beside[node] = fresh
		} else {
			t.d.onNodes[node] = old
		}
	}
}

// replaced returns the nodes whose proxies beside the way differ from those found.
func (t *trialRun) replaced(ctx context.Context) ([]string, error) {
	proxies := t.o.Mesh.Proxies(record.PlaceNode)
	pods, err := t.d.Kube.CoreV1().Pods(proxies.Namespace).List(ctx, metav1.ListOptions{LabelSelector: proxies.Selector})
	if err != nil {
		return nil, fmt.Errorf("list the proxies %s: %w", proxies.Selector, err)
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(t.beside)), func(node string) bool {
		return slices.ContainsFunc(pods.Items, func(pod corev1.Pod) bool { return isStill(&pod, t.beside[node], proxies.Containers) })
	}), nil
}

// noteReplaced records which proxies beside the way were replaced since before the trial. What
// passed the old ones is lost with their counters, and new ones may not have counters yet that
// could have fallen.
func (t *trialRun) noteReplaced(ctx context.Context) {
	if len(t.beside) == 0 {
		return
	}
	nodes, err := t.replaced(ctx)
	why := errors.New("its proxy was replaced, or restarted, during the trial")
	if err != nil {
		nodes, why = slices.Sorted(maps.Keys(t.beside)), fmt.Errorf("whether its proxy was replaced during the trial is unknown: %w", err)
	}
	for _, node := range nodes {
		t.noteAnew(node, why)
	}
}

// noteAnew records that the proxy beside the way on a node was not the same throughout.
func (t *trialRun) noteAnew(node string, why error) {
	if t.anew == nil {
		t.anew = map[string]error{}
	}
	t.anew[node] = why
}

// isStill reports whether a pod is the one found before, with the same containers.
func isStill(pod *corev1.Pod, known site.Pod, containers []string) bool {
	now := site.PodOf(pod)
	return now.UID == known.UID && pod.DeletionTimestamp == nil &&
		!slices.ContainsFunc(containers, func(name string) bool { return now.Containers[name] != known.Containers[name] })
}
