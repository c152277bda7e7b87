package trial

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/meshtrial/meshtrial/kinds/resilience/verdict"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/site"
)

// meshNodes returns the nodes with living mesh pods.
func (t *scenarioTrial) meshNodes() []string { return slices.Sorted(maps.Keys(t.meshPods())) }

// meshPods returns the living mesh pods, by node.
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

// noteArrivals records the nodes that steps have brought mesh pods to, and the counters of their
// proxies, which carry requests from now on. It retries a proxy that does not answer at the next
// sample and records the time without an answer. Once the timeline's last requests begin, it only
// asks the proxies that have not answered yet, to learn when they do; what they carry from then on
// is not counted.
func (t *scenarioTrial) noteArrivals(ctx context.Context) {
	now, end := time.Now(), t.timelineEnd()
	if !t.scene.ambient() || now.After(end) {
		return
	}
	last := now.After(end.Add(-lately))
	known, pods := t.shared.on(), t.meshPods()
	t.shared.endSilences(pods)
	for _, node := range slices.Sorted(maps.Keys(pods)) {
		_, silent := t.shared.silent[node]
		if slices.Contains(known, node) || last && !silent {
			continue
		}
		limited, cancel := context.WithTimeout(ctx, oneSeat)
		pod, err := t.FindProxy(limited, t.proxiesAt(record.PlaceNode), node)
		var had tallies
		if err == nil {
			had, err = t.ask(limited, map[string][]site.Pod{record.PartNode: {pod}})
		}
		cancel()
		if err != nil && silent && ctx.Err() != nil {
			continue // the wait was abandoned, which does not explain the silence
		}
		t.shared.noteSilence(node, pods[node], err)
		if err == nil && !last {
			t.arrived(node, pod, had)
		}
	}
}

// timelineEnd returns the end of the timeline by the runner's clock.
func (t *scenarioTrial) timelineEnd() time.Time { return t.zero.Add(t.timeline.Duration) }

// silence is a period in which a node's proxy did not answer although requests may have reached
// pods there. It starts when the first of these pods became ready, in Unix nanoseconds.
type silence struct {
	node         string
	since, until int64
	err          error
}

func (s silence) missed() verdict.Missed {
	return verdict.Missed{Of: "proxy of node " + s.node, AtNS: s.until, SinceNS: s.since, Every: costEvery,
		Error: fmt.Sprintf("steps brought pods to node %s, whose proxy could not be asked for %.1f s: neither what it carried then nor its CPU is known: %v", s.node, float64(s.until-s.since)/1e9, s.err)}
}

// noteSilence records the result of asking the proxy of a node that steps brought pods to: the
// reason for no answer, or nil, which ends its silence.
func (s *sharedProxies) noteSilence(node string, pods []*resident, err error) {
	one, known := s.silent[node]
	for _, r := range pods {
		if r.ReadyNS != 0 && (!known || r.ReadyNS < one.since) {
			one.since, known = r.ReadyNS, true
		}
	}
	if !known {
		return
	}
	one.node, one.until = node, time.Now().UnixNano()
	if err != nil {
		one.err = err
		if s.silent == nil {
			s.silent = map[string]silence{}
		}
		s.silent[node] = one
		return
	}
	delete(s.silent, node)
	if one.err == nil {
		one.err = errors.New("the look before took too long")
	}
	if one.until-one.since > costEvery.Nanoseconds() { // else it was asked in time
		s.silences = append(s.silences, one)
	}
}

// endSilences ends the silences of nodes without a living pod that was ready, since no requests go
// there.
func (s *sharedProxies) endSilences(pods map[string][]*resident) {
	for _, node := range slices.Sorted(maps.Keys(s.silent)) {
		if !slices.ContainsFunc(pods[node], func(r *resident) bool { return r.ReadyNS != 0 }) {
			s.silences = append(s.silences, s.silent[node])
			delete(s.silent, node)
		}
	}
}

// unasked returns the periods in which proxies did not answer while requests may have reached the
// pods on their nodes. For a proxy that never answered, the period extends to the end of the
// timeline. No figure includes these periods, and a long one invalidates the proof.
func (t *scenarioTrial) unasked() []verdict.Missed {
	var out []verdict.Missed
	end := min(time.Now().UnixNano(), t.timelineEnd().UnixNano())
	for _, one := range t.shared.silences {
		one.until = min(one.until, end) // the last answer may come later
		out = append(out, one.missed())
	}
	for _, node := range slices.Sorted(maps.Keys(t.shared.silent)) {
		one := t.shared.silent[node]
		one.until = end
		out = append(out, one.missed())
	}
	return out
}

// arrived records a node that mesh pods have come to, and its proxy.
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

// meanProxies returns the mean number of nodes whose proxies' CPU was counted. Nodes that steps
// brought pods to count from then on.
func (t *scenarioTrial) meanProxies() float64 {
	mean := float64(len(t.shared.on()))
	if begun, ended := t.looks.span(); ended > begun {
		for _, at := range t.shared.came {
			mean -= float64(min(max(at, begun), ended)-begun) / float64(ended-begun)
		}
	}
	return mean
}

// on returns the nodes.
func (s *sharedProxies) on() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.nodes)
}

// hasStood reports whether a pod served other pods on its node before it carried the trial's
// requests.
func (s *sharedProxies) hasStood(uid string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stood[uid]
}
