package trial

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/site"
)

// meshNodes are the nodes on which pods of the mesh live.
func (t *scenarioTrial) meshNodes() []string {
	nodes := map[string]bool{}
	for _, w := range t.scene.workloads() {
		for _, r := range t.census.living(w.Name) {
			if w.Carrier != "" && r.Node != "" {
				nodes[r.Node] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(nodes))
}

// noteArrivals notes the nodes to which steps have brought pods of the mesh, with what the
// proxies there had counted until then: requests pass them from now on. One that cannot be
// asked yet is at the next look. The timeline's last requests come after all that is noted.
func (t *scenarioTrial) noteArrivals(ctx context.Context) {
	if !t.scene.ambient() || time.Now().After(t.zero.Add(t.timeline.Duration-lately)) {
		return
	}
	known := t.shared.on()
	for _, node := range t.meshNodes() {
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
		if err == nil {
			t.arrived(node, pod, had)
		}
	}
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
