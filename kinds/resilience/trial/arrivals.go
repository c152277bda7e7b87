package trial

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/site"
)

// meshNodes are the nodes on which pods of the mesh live.
func (t *scenarioTrial) meshNodes() []string { return slices.Sorted(maps.Keys(t.meshPods())) }

// meshPods are the pods of the mesh that live, by their nodes.
func (t *scenarioTrial) meshPods() map[string][]*resident {
	out := map[string][]*resident{}
	for _, w := range t.scene.workloads() {
		for _, r := range t.census.living(w.Name) {
			if w.Carrier != "" && r.Node != "" {
				out[r.Node] = append(out[r.Node], r)
			}
		}
	}
	return out
}

// noteArrivals notes the nodes to which steps have brought pods of the mesh, with what the
// proxies there had counted until then: requests pass them from now on. One that cannot be
// asked yet is at the next look; what kept it from answering is noted once pods there have
// been ready. The timeline's last requests come after all that is noted.
func (t *scenarioTrial) noteArrivals(ctx context.Context) {
	if !t.scene.ambient() || time.Now().After(t.zero.Add(t.timeline.Duration-lately)) {
		return
	}
	known, pods := t.shared.on(), t.meshPods()
	for _, node := range slices.Sorted(maps.Keys(pods)) {
		if slices.Contains(known, node) {
			continue
		}
		limited, cancel := context.WithTimeout(ctx, oneSeat)
		pod, err := t.FindProxy(limited, t.proxiesAt(record.PlaceNode), node)
		var had tallies
		if err == nil {
			had, err = t.ask(limited, map[string][]site.Pod{record.PartNode: {pod}})
		}
		cancel()
		switch {
		case err == nil:
			t.arrived(node, pod, had)
		case slices.ContainsFunc(pods[node], func(r *resident) bool { return r.ReadyNS != 0 }):
			if t.shared.mute == nil {
				t.shared.mute = map[string]error{}
			}
			t.shared.mute[node] = err
		}
	}
}

// unasked are checks that failed: one for each node whose proxy never answered while requests
// may have come to the pods there. It is in no figure, and proves nothing.
func (t *scenarioTrial) unasked() []record.Check {
	var out []record.Check
	known := t.shared.on()
	for _, node := range slices.Sorted(maps.Keys(t.shared.mute)) {
		if !slices.Contains(known, node) {
			out = append(out, record.Check{Name: "node-" + node + afterwards, Detail: fmt.Sprintf(
				"steps brought pods to node %s, whose proxy could not be asked: neither what it carried nor its CPU is known: %v", node, t.shared.mute[node])})
		}
	}
	return out
}

// arrived notes a node to which pods of the mesh have come, and its proxy.
func (t *scenarioTrial) arrived(node string, pod site.Pod, had tallies) {
	for _, one := range had {
		t.shared.before.add(one.part, one.counters)
		if t.shared.began != nil { // a timeline with steps
			t.shared.began[one.process] = one.counters
		}
	}
	t.shared.mu.Lock()
	if t.shared.stood == nil {
		t.shared.stood = map[string]bool{}
	}
	t.shared.stood[pod.UID] = true
	t.shared.nodes = append(slices.Clone(t.shared.nodes), node)
	slices.Sort(t.shared.nodes)
	t.shared.mu.Unlock()
	t.shared.note(record.PartNode, pod)
}

// on are the nodes.
func (s *sharedProxies) on() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.nodes)
}

// hasStood says that a pod was on its node for others before it carried a trial's requests.
func (s *sharedProxies) hasStood(uid string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stood[uid]
}
