package trial

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/internal/ending"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/kinds/resilience/verdict"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/site"
	"golang.org/x/sync/errgroup"
)

// Sampling intervals during the timeline.
const (
	lookEvery    = 100 * time.Millisecond // of endpoints
	ejectedEvery = 500 * time.Millisecond // of each caller's proxy
	costEvery    = time.Second            // of the CPU counters
)

// looks samples what is not reported on its own: ejected endpoints and CPU. It owns its goroutines;
// stop ends them.
type looks struct {
	t      *scenarioTrial
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu      sync.Mutex
	samples []record.ScenarioSample
	ejected map[string]map[string]int // by pod, then service
	there   map[string]string         // targets of the first sample, read or not
	nodes   map[string]bool           // of the first sample, and whether they had pods of the trial
	// begun is when the last node with pods of the trial in the first sample had been read, and ended
	// the last sample of a node with pods, by the runner's clock, in nanoseconds.
	begun, ended int64
	first        map[string]usage // by target
	last         map[string]usage
	away         map[string]bool                     // by target, whether the last sample missed it
	machine      [2]map[string]observe.MachineSample // first and last, by node
	others       map[string]site.Shots               // first and last of each node, including its other processes
	unread       map[string]error                    // by node without pods of the trial, why the first or last sample is missing
	host         *observe.Host                       // next to the node, nil if there is none
	memory       map[string]int64
	entered      entries // of the gateway
	missed       []verdict.Missed
}

// usage is a container's cumulative usage.
type usage struct {
	part string
	at   observe.Sample
}

// watch starts sampling.
func (t *scenarioTrial) watch(ctx context.Context) *looks {
	l := &looks{t: t, ejected: map[string]map[string]int{}, first: map[string]usage{}, last: map[string]usage{}, away: map[string]bool{}, memory: map[string]int64{},
		entered: entries{map[string]mesh.Entered{}, map[string]mesh.Entered{}},
		machine: [2]map[string]observe.MachineSample{{}, {}}, others: map[string]site.Shots{}}
	ctx, l.cancel = context.WithCancel(ctx)
	begin := t.zero.Add(-time.Until(t.zero) / 2)
	l.done.Go(func() {
		l.every(ctx, "endpoints", begin, lookEvery, func(context.Context) error { l.sample(); return nil })
	})
	l.done.Go(func() {
		l.count(ctx, func(ctx context.Context) error { return l.cost(ctx, false) })
	})
	// Without steps no endpoint is ejected, and queries cost the proxies CPU.
	if m, ok := able[mesh.EjectionReader](t.scene); ok && len(t.timeline.Steps) > 0 {
		l.done.Go(func() {
			l.every(ctx, "ejections", begin, ejectedEvery, func(ctx context.Context) error { return l.ejections(ctx, m) })
		})
	}
	if m, ok := able[mesh.EntryCounter](t.scene); ok {
		if gateway, ok := t.scene.scenario.Graph.Gateway(); ok {
			first := true
			l.done.Go(func() {
				l.every(ctx, "gateways", begin, costEvery, func(ctx context.Context) error {
					err := l.gateways(ctx, m, gateway.Name, first)
					first = first && err != nil
					return err
				})
			})
		}
	}
	return l
}

// stop ends the sampling, after a last sample of CPU and memory. It may be called more than once.
func (l *looks) stop(ctx context.Context) {
	if l.cancel == nil {
		return
	}
	l.cancel()
	l.done.Wait()
	l.cancel = nil
	ctx, cancel := ending.Within(ctx, lastLookTime)
	defer cancel()
	since := time.Now()
	err := l.cost(ctx, false)
	l.host = l.t.HostAfter(l.host) // read after the counters
	if err = errors.Join(err, l.cost(ctx, true)); err != nil {
		l.miss(verdict.Missed{Of: ofCounters, Error: err.Error(), AtNS: time.Now().UnixNano(), SinceNS: since.UnixNano(), Every: costEvery, Last: true})
	}
}

// lastLookTime limits the last sample: a trial without it is worthless, and memory is summed page
// by page.
const lastLookTime = 30 * time.Second

// ofCounters names samples of CPU and memory.
const ofCounters = "counters"

// every samples repeatedly and records failures.
func (l *looks) every(ctx context.Context, of string, at time.Time, d time.Duration, look func(context.Context) error) {
	seen := time.Now()
	for ; wake.Pause(ctx, time.Until(at)) == nil; at = at.Add(d) {
		switch err := look(ctx); {
		case err == nil:
			seen = time.Now()
		case ctx.Err() == nil:
			l.miss(verdict.Missed{Of: of, Error: err.Error(), AtNS: seen.Add(time.Since(seen)).UnixNano(), SinceNS: seen.UnixNano(), Every: d})
		}
		for time.Until(at) < -d { // a slow sample skips some
			at = at.Add(d)
		}
	}
}

// hold records the memory of a part whose pods end before the last sample.
func (l *looks) hold(part string, bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.memory[part] += bytes
}

func (l *looks) miss(m verdict.Missed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.missed = append(l.missed, m)
}

// sample reads the endpoints.
func (l *looks) sample() {
	s := record.ScenarioSample{AtNS: time.Now().UnixNano(), Ready: l.t.census.readyCount(l.t.scene.scenario.Names())}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, of := range l.ejected {
		for service, n := range of {
			if n == 0 {
				continue
			}
			if s.Ejected == nil {
				s.Ejected = map[string]int{}
			}
			s.Ejected[service] = max(s.Ejected[service], n)
		}
	}
	l.samples = append(l.samples, s)
}

// ejections queries the callers' proxies for the endpoints that they have ejected.
func (l *looks) ejections(ctx context.Context, m mesh.EjectionReader) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for _, r := range l.t.callers() {
		group.Go(func() error {
			stats, err := l.t.admin(r).Gauges(ctx, m.EjectedFilter())
			if err != nil {
				if !r.ready || !l.t.census.lives(r.uid) || disturbs(&l.t.timeline, r.Service) {
					return nil // a new pod has ejected nothing yet
				}
				return fmt.Errorf("ejections of the proxy of %s: %w", r.Name, err)
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			l.ejected[r.uid] = m.Ejected(stats, l.t.Namespace)
			return nil
		})
	}
	return group.Wait()
}

// disturbs reports whether a step stops the proxies of a service, which may then not answer.
func disturbs(t *fault.Timeline, service string) bool {
	return slices.ContainsFunc(t.Steps, func(s fault.Step) bool {
		p, ok := s.Action.(*fault.Process)
		return ok && (p.Of == fault.OfProxy || p.Of == fault.OfAgent) && p.Service == service
	})
}

// add records the counters of a sample. A container that came after the first sample starts at
// zero. One that existed but could not be read counts from its first reading.
func (l *looks) add(shot observe.Snapshot, parts map[string]string) {
	for name, s := range shot.Targets {
		if s.Error != "" {
			continue
		}
		if _, known := l.first[name]; !known {
			if _, was := l.there[name]; was {
				l.first[name] = usage{parts[name], s}
			} else {
				l.first[name] = usage{parts[name], observe.Sample{CPU: observe.CPUSample{Inode: s.CPU.Inode}}}
			}
		}
		l.last[name] = usage{parts[name], s}
	}
}

// seen returns when a pod's counters were last read, by the runner's clock.
func (l *looks) seen(pod site.Pod) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last[pod.UID].at.AtUnixNS - l.t.ahead[pod.Node]
}

// cpu sums the usage of each part between the first and the last sample.
func (l *looks) cpu() map[string]record.CPU {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := map[string]record.CPU{}
	for name, last := range l.last {
		if used, err := last.at.Since(l.first[name].at); err == nil {
			out[last.part] = out[last.part].Plus(used)
		}
	}
	for _, node := range l.machines() {
		if used, _, err := l.machine[1][node].Since(l.machine[0][node]); err == nil {
			out[record.PartMachine] = out[record.PartMachine].Plus(used)
		}
	}
	return out
}

// machines returns the nodes whose readings represent their machines. If several nodes share a
// machine, each of which counts all of it, the node that was read the longest represents it: others
// had pods of the trial for part of the timeline only. The caller holds the lock.
func (l *looks) machines() []string {
	long := func(node string) time.Duration { return l.machine[1][node].Elapsed(l.machine[0][node]) }
	nodes := slices.Sorted(maps.Keys(l.machine[1]))
	slices.SortStableFunc(nodes, func(a, b string) int { return cmp.Compare(long(b), long(a)) })
	var out []string
	counted := map[string]bool{}
	for _, node := range nodes {
		boot := l.machine[1][node].BootID
		if boot == "" || !counted[boot] {
			out = append(out, node)
		}
		counted[boot] = true
	}
	return out
}

// beside returns the usage of the nodes' machine by anything but the parts, adds the unattributed
// CPU to the parts, and returns the machine's pressure. It returns nil for several machines. If a
// lab node was not read throughout, its own processes would count as others, so the error names
// the node and the usage by others is unknown.
func (l *looks) beside(parts map[string]record.CPU) (*record.Others, *record.Pressure, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	machines := l.machines()
	if len(machines) != 1 || len(l.machine[1]) > 1 && l.host == nil {
		return nil, nil, nil
	}
	before, after := l.machine[0][machines[0]], l.machine[1][machines[0]]
	_, pressure, err := after.Since(before)
	if err != nil {
		return nil, nil, nil
	}
	if l.host != nil {
		if err := l.unseen(before); err != nil {
			return nil, &pressure, err
		}
	}
	var nodes []site.Shots
	for _, node := range slices.Sorted(maps.Keys(l.machine[1])) {
		nodes = append(nodes, l.others[node])
	}
	return site.Unattributed(parts, after.Elapsed(before).Seconds(), nodes, l.host), &pressure, nil
}

// noteOthers records the usage of the machine by others, or why it is unknown.
func (t *scenarioTrial) noteOthers(parts map[string]record.CPU) {
	others, pressure, err := t.looks.beside(parts)
	t.out.Others, t.out.Pressure = others, pressure
	if err != nil {
		t.unmeasured("other processes' use of the machine is unknown: %v", err)
	}
}

// Parts of a service's pods.
const (
	partWorker = ".worker"
	partProxy  = ".proxy"
	// partControlPlane is the whole control plane in scenario records, and partSecond the control
	// planes of other revisions.
	partControlPlane = "control_plane"
	partSecond       = "second_control_plane"
)

// targets returns the living containers by node, and the part of each.
func (t *scenarioTrial) targets() (map[string][]observe.Target, map[string]string) {
	out, parts := map[string][]observe.Target{}, map[string]string{}
	put := func(node, part, uid, container string) {
		if container == "" {
			return
		}
		name := uid + "/" + container
		out[node] = append(out[node], observe.Target{Name: name, PodUID: uid, ContainerID: container, MayEnd: true})
		parts[name] = part
	}
	t.census.mu.Lock()
	for _, r := range t.census.pods {
		if r.left {
			continue
		}
		put(r.Node, r.Service+partWorker, r.uid, r.containers[site.RoleWorker])
		put(r.Node, r.Service+partWorker, r.uid, r.containers[site.RoleLoad])
		for _, name := range mesh.Sidecars(t.scene.mesh).Containers {
			put(r.Node, r.Service+partProxy, r.uid, r.containers[name])
		}
	}
	t.census.mu.Unlock()
	alone := t.shared.all()
	alone[partControlPlane], alone[partSecond], alone[record.PartNodeAgent] = t.Control, t.revisions.others(), t.agents
	for part, pods := range alone {
		for _, pod := range pods {
			out[pod.Node] = append(out[pod.Node], observe.Target{Name: pod.UID, PodUID: pod.UID, MayEnd: true})
			parts[pod.UID] = part
		}
	}
	return out, parts
}
