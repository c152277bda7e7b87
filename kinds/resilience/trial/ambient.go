package trial

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/meshtrial/meshtrial/drive/graph"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/study/protocol"
)

// sharedProxies are the proxies with pods of their own that carry a trial's requests:
// those on nodes, and a waypoint; empty where there are none.
type sharedProxies struct {
	// before are their counters: of those on nodes before any request, of a waypoint after
	// the first, which may have found proxies that had not heard of it.
	before risesOf
	// began is what the processes had counted when a timeline with steps began.
	began map[string]map[string]float64
	// silent are nodes to which steps brought pods and whose proxies give no answer, silences
	// what is over of that.
	silent   map[string]silence
	silences []silence

	mu    sync.Mutex
	nodes []string              // that have or had pods of the mesh, since they were noted
	came  map[string]int64      // nodes to which steps brought pods, and when that was noted, nanoseconds since 1970
	stood map[string]bool       // by UID: pods that were on a node before those of the trial came there
	pods  map[string][]site.Pod // by part: those that there are, and that there were
	// What steps did to those on nodes, which is put right after the trial.
	reset  []restart
	killed []faultPod
}

// ambient says that proxies on nodes carry the requests of the cell's services.
func (s *scene) ambient() bool { return study.Ambient(s.cell) }

// way is what requests pass beside the proxies of pods, each once.
func (s *scene) way() record.Way {
	switch {
	case study.Waypoint(s.cell):
		return record.Way{record.PartNode, record.PartWaypoint}
	case s.ambient():
		return record.Way{record.PartNode}
	}
	return nil
}

// note adds pods that are not known yet.
func (s *sharedProxies) note(part string, pod site.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pods == nil {
		s.pods = map[string][]site.Pod{}
	}
	if !slices.ContainsFunc(s.pods[part], func(known site.Pod) bool { return known.UID == pod.UID }) {
		s.pods[part] = append(s.pods[part], pod)
	}
}

// noteKilled notes ztunnels whose process is about to be killed.
func (s *sharedProxies) noteKilled(all []victim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range all {
		s.killed = append(s.killed, v.pod)
	}
}

// noteReset notes what a step changed.
func (s *sharedProxies) noteReset(one restart) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(one.step) > 0 {
		s.reset = append(s.reset, one)
	}
}

// all are the pods by part.
func (s *sharedProxies) all() map[string][]site.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string][]site.Pod{}
	for part, pods := range s.pods {
		out[part] = slices.Clone(pods)
	}
	return out
}

// findShared finds the proxies that carry the trial's requests: of the nodes on which pods
// of the mesh live, and a waypoint once it is ready.
func (t *scenarioTrial) findShared(ctx context.Context) error {
	if !t.scene.ambient() {
		return nil
	}
	if err := t.AwaitBrought(ctx, t.proxiesAt(record.PlaceNode).Agents); err != nil {
		return t.lasting(absent{record.PartNode, err})
	}
	t.shared.nodes = t.meshNodes()
	present, err := t.present(ctx)
	if err = t.lasting(err); err != nil {
		return err
	}
	t.shared.before, err = t.counters(ctx, present)
	return err
}

// present waits until all these proxies are ready, which a step may have taken away, and
// returns those that are then. One that is not the one that the run's header names ends the
// run: trials of other cells would not ask it.
func (t *scenarioTrial) present(ctx context.Context) (map[string][]site.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, site.ReadyTimeout)
	defer cancel()
	out := map[string][]site.Pod{}
	for _, part := range t.scene.way() {
		place, at := t.seats(part)
		for _, node := range at {
			pod, err := t.awaitProxy(ctx, place, node)
			if err == nil {
				err = runner.Futile(mesh.Fits(t.scene.mesh, place, pod.State))
			}
			if err != nil {
				return nil, absent{part, err}
			}
			t.shared.note(part, pod)
			out[part] = append(out[part], pod)
		}
	}
	return out, nil
}

// seats are the nodes that have a proxy of a part each; of one that may be anywhere "".
func (t *scenarioTrial) seats(part string) (record.Place, []string) {
	p, _ := record.ProxyOf(part)
	if p.Place == record.PlaceNode {
		return p.Place, t.shared.on()
	}
	return p.Place, []string{""}
}

// awaitProxy waits for a proxy that answers: that on a node, or any at the place for "".
func (t *scenarioTrial) awaitProxy(ctx context.Context, place record.Place, node string) (site.Pod, error) {
	return t.await(ctx, place, node, t.FindProxy)
}

// await waits until find has the proxy of a node, or any at the place for "".
func (t *scenarioTrial) await(ctx context.Context, place record.Place, node string, find func(context.Context, mesh.Proxies, string) (site.Pod, error)) (site.Pod, error) {
	proxies := t.proxiesAt(place)
	watch := t.WatchProxy(proxies)
	for {
		pod, err := find(ctx, proxies, node)
		if err != nil {
			if hopeless := watch(ctx, err); hopeless != nil && ctx.Err() == nil {
				return pod, hopeless
			}
		}
		if err == nil || wake.Pause(ctx, leverEvery) != nil {
			if err != nil {
				err = t.Unready(ctx, proxies, err)
			}
			return pod, err
		}
	}
}

// proxiesAt says how the proxies at a place are found; a waypoint is the trial's own.
func (t *scenarioTrial) proxiesAt(place record.Place) mesh.Proxies {
	proxies := t.scene.mesh.Proxies(place)
	if place == record.PlaceWaypoint {
		proxies.Namespace = cmp.Or(proxies.Namespace, t.Namespace)
	}
	return proxies
}

// warmUp has requests flow before the timeline.
func (t *scenarioTrial) warmUp(ctx context.Context) (err error) {
	t.say("requests flow, for %v", warmLoad)
	var warm flowed
	if t.out.Warmup, warm, err = t.clients.warm(ctx, t.scene); err != nil {
		return err
	}
	return t.proveWarm(ctx, warm)
}

// proveWarm notes, for a timeline with steps, whether the requests before it passed these
// proxies: a step may take the counters of the others away with the process that has them.
// Before such a timeline requests flow a second time where a waypoint counts them.
func (t *scenarioTrial) proveWarm(ctx context.Context, warm flowed) (err error) {
	if !t.scene.ambient() {
		return nil
	}
	waypoint := t.scene.way().Has(record.PartWaypoint)
	if waypoint {
		now, err := t.counters(ctx, t.shared.all())
		if err != nil {
			return err
		}
		t.shared.before[record.PartWaypoint] = now[record.PartWaypoint]
		if len(t.timeline.Steps) > 0 {
			t.shared.before = now
		}
	}
	if len(t.timeline.Steps) == 0 {
		return nil
	}
	if waypoint {
		if t.out.Warmup, warm, err = t.clients.warm(ctx, t.scene); err != nil {
			return err
		}
	}
	began, err := t.ask(ctx, t.shared.all())
	if err == nil {
		t.shared.began = began.byProcess()
		t.evidence.Carried, err = t.scene.carried(began.together().since(t.shared.before), flowed{warm.completed + t.clients.unanswered, warm.completed})
	}
	return err
}

// checkShared notes whether the requests to each service in the mesh passed these proxies,
// by their own counters. They are asked once the load has ended. After steps they may be
// others than before, which count less.
func (t *scenarioTrial) checkShared(ctx context.Context, whole flowed, got outcome) error {
	if !t.scene.ambient() {
		return nil
	}
	t.out.Scenario.NodeProxies = len(t.shared.on())
	if len(t.shared.came) > 0 {
		t.out.Scenario.MeanNodeProxies = t.meanProxies()
	}
	if len(t.timeline.Steps) > 0 {
		return t.checkAfterwards(ctx, got)
	}
	present, err := t.present(ctx)
	if err != nil {
		return err
	}
	after, err := t.counters(ctx, present)
	if err != nil {
		return err
	}
	t.evidence.Carried, err = t.scene.carried(after.since(t.shared.before), flowed{whole.scheduled + t.clients.unanswered, whole.completed})
	return err
}

// flowed is how many requests the clients sent in a time, and how many were answered.
type flowed struct{ scheduled, completed int64 }

// carried checks for each service in the mesh, by how far the counters of shared proxies
// rose, that at least the completed requests to it passed them; of the others nobody knows
// how far they came. A waypoint must have passed each of them on. Where chance or repetition
// has a say in how many come to a service, they are known roughly.
func (s *scene) carried(rise risesOf, of flowed) ([]record.Check, error) {
	return s.carriedLeast(rise, of, math.MaxInt64)
}

// carriedLeast asks each service for so many requests at most.
func (s *scene) carriedLeast(rise risesOf, of flowed, enough int64) ([]record.Check, error) {
	expected, err := s.visits()
	if err != nil {
		return nil, err
	}
	passed := map[string]*mesh.Passed{}
	for part, all := range rise {
		passed[part] = &mesh.Passed{Rise: all}
	}
	var out []record.Check
	for i, one := range s.scenario.Graph.Services {
		if s.workload(&s.scenario.Graph.Services[i]).Carrier == "" {
			continue
		}
		least, most := expected[i].of(of.completed)
		least = min(least, enough)
		// One without an answer may have failed at any of its calls.
		unknown := int64(math.Ceil(max(1, expected[i].most) * float64(of.scheduled-of.completed)))
		// Clients keep so many connections, and open them for the warm-up and again. How
		// many services open to each other is theirs to say: one at least, if one calls, and
		// one a request at most.
		each := int64(s.scenario.Clients * s.levels.Connections)
		fewest, connections := min(1, least), most+unknown+2*each
		if one.Name == s.scenario.Entry {
			fewest = each
		}
		e := mesh.Evidence{Cell: s.weighing(one), Endpoint: mesh.Endpoint{Service: one.Name, Namespace: s.namespace, Opaque: true},
			Requests: least, Unknown: unknown, Connections: connections, Probes: connections - fewest, Way: s.way(), Proxies: passed}
		if study.Waypoint(s.cell) { // which counts requests
			ports := s.portsOf(one) // of the entry the last is the clients'
			e.Endpoint.Opaque, e.Endpoint.Port = false, ports[len(ports)-1].Port
			e.Unknown += most - least
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

// weighing is the cell by what requests to a service weigh at least: those of clients what
// they carry. What services ask each other for carries a payload of its own, so that the
// heads are what is known; likewise where there is no payload.
func (s *scene) weighing(one graph.Service) record.Cell {
	head := "60B" // less than the shortest that clients and workers send, with its answer
	entry := one.Name == s.scenario.Entry
	if entry && s.cell[study.FactorPayload] != "0B" {
		return s.cell
	}
	if one.Protocol == protocol.HTTP2 || entry && s.levels.Protocol == protocol.HTTP2 {
		head = "30B" // HTTP/2 says what it has said before in a byte: some 45 are left
	}
	return s.cell.With(record.Cell{study.FactorPayload: head})
}
