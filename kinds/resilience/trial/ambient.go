package trial

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/meshtrial/meshtrial/drive/graph"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe/ledger"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/study/protocol"
	corev1 "k8s.io/api/core/v1"
)

// sharedProxies holds the proxies in their own pods that carry a trial's requests: node proxies and
// a waypoint. It is empty if there are none.
type sharedProxies struct {
	// before holds their counters: for node proxies before any request, for a waypoint after the
	// warm-up, when all proxies know it.
	before risesOf
	// began holds the counters by process at the start of a timeline with steps.
	began map[string]map[string]float64
	nodes []string // that have pods of the mesh before the timeline
	mu    sync.Mutex
	pods  map[string][]site.Pod // by part: existing and former ones

	// Effects of steps on node proxies, to undo after the trial.
	reset  []restart
	killed []site.Pod
	// leaving are the node proxies that the way back of a move replaces.
	leaving []corev1.Pod
}

// meshNodes returns the nodes with living mesh pods.
func (t *scenarioTrial) meshNodes() []string {
	var out []string
	for _, w := range t.scene.workloads() {
		for _, r := range t.census.living(w.Name) {
			if w.Carrier != "" && r.Node != "" {
				out = append(out, r.Node)
			}
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(out)))
}

// wholeNodes removes the node proxies' usage from the record if steps brought pods of the mesh to
// nodes without any before, whose proxies were not read.
func (t *scenarioTrial) wholeNodes(out *record.Scenario) {
	if !t.scene.ambient() {
		return
	}
	for _, pod := range out.Pods {
		one, known := t.scene.scenario.Graph.Service(pod.Service)
		if pod.Node == "" || known && !one.Sidecar || slices.Contains(t.shared.nodes, pod.Node) {
			continue
		}
		t.forget(out, record.PartNode, fmt.Sprintf("what proxies of nodes used is not known: steps brought pods to node %s, whose proxy was not read", pod.Node))
		return
	}
}

// ambient reports whether node proxies carry the requests of the cell's services.
func (s *scene) ambient() bool { return study.Ambient(s.cell) }

// way lists the proxies that requests pass besides the pods' own, each once.
func (s *scene) way() record.Way {
	switch {
	case study.Waypoint(s.cell):
		return record.Way{record.PartNode, record.PartWaypoint}
	case s.ambient():
		return record.Way{record.PartNode}
	}
	return nil
}

// note adds pods not yet known.
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

// noteKilled records ztunnels whose process is about to be killed.
func (s *sharedProxies) noteKilled(pods []site.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.killed = append(s.killed, pods...)
}

// noteReset records a step's change.
func (s *sharedProxies) noteReset(one restart) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reset = append(s.reset, one)
}

// all returns the pods by part.
func (s *sharedProxies) all() map[string][]site.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string][]site.Pod{}
	for part, pods := range s.pods {
		out[part] = slices.Clone(pods)
	}
	return out
}

// findShared finds the proxies that carry the trial's requests: those of nodes with living mesh
// pods, and a waypoint once it is ready.
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

// present waits until all these proxies are ready, since a step may have removed some, and returns
// them. A proxy that differs from the run's header ends the run, because trials of other cells
// would not check it.
func (t *scenarioTrial) present(ctx context.Context) (map[string][]site.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, site.ReadyTimeout)
	defer cancel()
	out := map[string][]site.Pod{}
	for _, part := range t.scene.way() {
		place, at := t.seats(part)
		for _, node := range at {
			pod, err := t.AwaitProxy(ctx, t.FindProxy, t.proxiesAt(place), node)
			if err == nil {
				err = t.fits(place, pod.State)
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

// fits ends the run if a proxy does not match the run's header. It accepts all while steps may move
// proxies to another version and back.
func (t *scenarioTrial) fits(place record.Place, running *mesh.ProxyState) error {
	if r := t.revisions; r != nil {
		versions := false
		r.do(func() {
			for _, plane := range r.planes {
				versions = versions || plane.NodeVersion != ""
			}
		})
		if versions {
			return nil
		}
	}
	return runner.Fatal(mesh.Fits(t.scene.mesh, place, running))
}

// seats returns the nodes on which each part needs a proxy; "" for a part that may be anywhere.
func (t *scenarioTrial) seats(part string) (record.Place, []string) {
	p, _ := record.ProxyOf(part)
	if p.Place == record.PlaceNode {
		return p.Place, t.shared.nodes
	}
	return p.Place, []string{""}
}

// proxiesAt says how to find the proxies at a place; a waypoint belongs to the trial.
func (t *scenarioTrial) proxiesAt(place record.Place) mesh.Proxies {
	proxies := t.scene.mesh.Proxies(place)
	if place == record.PlaceWaypoint {
		proxies.Namespace = cmp.Or(proxies.Namespace, t.Namespace)
	}
	return proxies
}

// warmUp sends requests before the timeline. For one with steps it records whether they passed the
// shared proxies, since a step may end processes and lose their counters. If a waypoint counts
// requests, a second warm-up precedes such a timeline.
func (t *scenarioTrial) warmUp(ctx context.Context) (err error) {
	t.say("requests flow, for %v", warmLoad)
	var warm flowed
	if t.out.Warmup, warm, err = t.clients.warm(ctx, t.scene); err != nil || !t.scene.ambient() {
		return err
	}
	steps := len(t.timeline.Steps) > 0
	if t.scene.way().Has(record.PartWaypoint) {
		now, err := t.counters(ctx, t.shared.all())
		if err != nil {
			return err
		}
		t.shared.before[record.PartWaypoint] = now[record.PartWaypoint]
		if steps {
			t.shared.before = now
			if t.out.Warmup, warm, err = t.clients.warm(ctx, t.scene); err != nil {
				return err
			}
		}
	}
	if !steps {
		return nil
	}
	began, err := t.ask(ctx, t.shared.all())
	if err == nil {
		t.shared.began = began.byProcess()
		t.evidence.Carried, err = t.scene.carried(began.together().since(t.shared.before), flowed{warm.completed + t.clients.unanswered, warm.completed}, math.MaxInt64)
	}
	return err
}

// checkShared records, by the proxies' own counters, whether the requests to each service in the
// mesh passed them. It reads the counters after the load has ended. After steps the proxies may be
// other ones, which have counted less.
func (t *scenarioTrial) checkShared(ctx context.Context, whole flowed, got outcome, book *ledger.Book) error {
	if !t.scene.ambient() {
		return nil
	}
	t.out.Scenario.NodeProxies = len(t.shared.nodes)
	if len(t.timeline.Steps) > 0 {
		return t.checkAfterwards(ctx, got, book)
	}
	present, err := t.present(ctx)
	if err != nil {
		return err
	}
	after, err := t.counters(ctx, present)
	if err != nil {
		return err
	}
	t.evidence.Carried, err = t.scene.carried(after.since(t.shared.before), flowed{whole.scheduled + t.clients.unanswered, whole.completed}, math.MaxInt64)
	return err
}

// flowed holds the numbers of requests that the clients sent in some period and that were answered.
type flowed struct{ scheduled, completed int64 }

// carried checks for each service in the mesh, by the rise of the shared proxies' counters, that at
// least its completed requests passed them, or as many as are enough; how far the others got is
// unknown. A waypoint must have forwarded each of them. If chance or retries determine how many
// requests reach a service, the number is approximate.
func (s *scene) carried(rise risesOf, of flowed, enough int64) ([]record.Check, error) {
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
		// A request without an answer may have failed at any of its calls.
		unknown := int64(math.Ceil(max(1, expected[i].most) * float64(of.scheduled-of.completed)))
		// Clients keep that many connections, and open them for the warm-up and again for the load.
		// The number of connections between services is up to them: at least one if they call at
		// all, at most one per request.
		each := int64(s.scenario.Clients * s.levels.Connections)
		fewest, connections := min(1, least), most+unknown+2*each
		if one.Name == s.scenario.Entry {
			fewest = each
		}
		e := mesh.Evidence{Cell: s.weighing(one), Endpoint: mesh.Endpoint{Service: one.Name, Namespace: s.namespace, Opaque: true},
			Requests: least, Unknown: unknown, Connections: connections, Probes: connections - fewest, Way: s.way(), Proxies: passed}
		if study.Waypoint(s.cell) { // waypoints count requests
			ports := s.portsOf(one) // the entry's last port is the clients'
			e.Endpoint.Opaque, e.Endpoint.Port = false, ports[len(ports)-1].Port
			e.Endpoint.Streams = one.Name == s.scenario.Entry && protocol.Of(s.levels.Protocol).Streams
			e.Unknown += most - least
		}
		for _, c := range s.mesh.Verify(e) {
			if !strings.HasSuffix(c.Name, "-sidecar") { // pods without a sidecar are not checked individually
				c.Name = one.Name + "-" + c.Name
				out = append(out, c)
			}
		}
	}
	return out, nil
}

// weighing returns the cell with the minimum size of a request to a service. For clients' requests
// that is their payload. Calls between services have their own payloads, so only the header size is
// known; the same holds without a payload.
func (s *scene) weighing(one graph.Service) record.Cell {
	head := "60B" // less than the shortest request of clients and workers with its answer
	entry := one.Name == s.scenario.Entry
	if entry && s.cell[study.FactorPayload] != "0B" {
		return s.cell
	}
	if entry && protocol.Of(s.levels.Protocol).Streams {
		head = "8B" // the frames of an empty message and its answer
	}
	if one.Protocol == protocol.HTTP2 || entry && s.levels.Protocol == protocol.HTTP2 {
		head = "30B" // HTTP/2 compresses repeated headers to some 45 bytes
	}
	return s.cell.With(record.Cell{study.FactorPayload: head})
}

// absent is the error of waiting for one part of a way.
type absent struct {
	part string
	error
}

func (a absent) Unwrap() error { return a.error }

// lasting classifies failed waits for proxies, part by part. A part that an earlier trial had makes
// another trial worthwhile. A part that never existed may be slow once, on a node that has yet to
// pull its image. After a second trial without it, every further one would wait just as long.
func (t *scenarioTrial) lasting(err error) error {
	var a absent
	if err != nil && (runner.IsFatal(err) || !errors.As(err, &a)) {
		return err // the wait was for something else
	}
	for _, part := range t.scene.way() {
		known := t.carriers.Has(part)
		switch {
		case part != a.part && !known:
			t.carriers = append(t.carriers, part)
		case part != a.part:
		case known:
			return err
		case t.missed.Has(part):
			return runner.Fatal(err)
		default:
			t.missed = append(t.missed, part)
			return err
		}
	}
	return err
}
