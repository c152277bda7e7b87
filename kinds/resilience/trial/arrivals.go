package trial

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/meshtrial/meshtrial/kinds/resilience/verdict"
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
// asked yet is at the next look; what keeps it from answering is noted, too. The timeline's
// last requests come after all that is noted.
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
		if err == nil {
			t.arrived(node, pod, had)
		} else {
			t.shared.noteMute(node, pods[node], err)
		}
	}
}

// noteMute notes that the proxy of a node to which steps brought pods gave no answer, if
// requests may have come to these: since the first of them was ready.
func (s *sharedProxies) noteMute(node string, pods []*resident, err error) {
	last, known := s.mute[node]
	since := last.SinceNS
	for _, r := range pods {
		if r.ReadyNS != 0 && (!known || r.ReadyNS < since) {
			since, known = r.ReadyNS, true
		}
	}
	if !known {
		return
	}
	if s.mute == nil {
		s.mute = map[string]verdict.Missed{}
	}
	s.mute[node] = verdict.Missed{Of: "proxy of node " + node, AtNS: time.Now().UnixNano(), SinceNS: since, Every: costEvery,
		Error: fmt.Sprintf("steps brought pods to node %s, whose proxy could not be asked: neither what it carried nor its CPU is known: %v", node, err)}
}

// unasked are the nodes whose proxies never answered while requests may have come to the
// pods there. They are in no figure, and where that was for long the trial proves nothing.
func (t *scenarioTrial) unasked() []verdict.Missed {
	var out []verdict.Missed
	known := t.shared.on()
	for _, node := range slices.Sorted(maps.Keys(t.shared.mute)) {
		if !slices.Contains(known, node) {
			out = append(out, t.shared.mute[node])
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
		t.shared.stood, t.shared.came = map[string]bool{}, map[string]int64{}
	}
	t.shared.stood[pod.UID], t.shared.came[node] = true, time.Now().UnixNano()
	t.shared.nodes = append(slices.Clone(t.shared.nodes), node)
	slices.Sort(t.shared.nodes)
	t.shared.mu.Unlock()
	t.shared.note(record.PartNode, pod)
}

// meanProxies is how many nodes' proxies CPU was counted of, the mean of the time: of those
// to which steps brought pods it was from then on.
func (t *scenarioTrial) meanProxies() float64 {
	mean := float64(len(t.shared.on()))
	if begun, ended := t.looks.span(); ended > begun {
		for _, at := range t.shared.came {
			mean -= float64(min(max(at, begun), ended)-begun) / float64(ended-begun)
		}
	}
	return mean
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
