package trial

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/meshtrial/meshtrial/drive/load"
	loadcontrol "github.com/meshtrial/meshtrial/drive/load/control"
	workercontrol "github.com/meshtrial/meshtrial/drive/worker/control"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/kinds/dataplane/verdict"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/observe/kubelet"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/study"
)

type trialRun struct {
	d      *deployed
	o      *runner.Options
	id     string
	cell   record.Cell
	hands  []*hand
	client *loadRole // the first hand
	server *workerRole
	spec   load.Spec
	seen   verdict.Evidence
	// way is the path of the cell's requests. proxies holds the pods of its existing proxies, and
	// of sidecars that should not exist. more holds those of additional hands, by part and hand.
	way     record.Way
	proxies map[string]site.Pod
	more    map[string]site.Pod
	// beside holds the proxies on the trial's nodes that its requests do not pass, and agents what
	// connects pods to the proxies of these nodes, on all or none; by node.
	beside, agents map[string]site.Pod
	// anew holds, by node, why a proxy of beside was not the same throughout.
	anew map[string]error

	targets map[string][]observe.Target // by node
	started loadcontrol.Started         // of the first hand
	before  counters                    // before the start
	skew    map[string]time.Duration    // by node: its observer's clock minus the generator's
	// stepped is, by node, how far its clock had been set by the time of the comparison, by its
	// observer. generatorStepped is the same for the generator's clock.
	stepped          map[string]int64
	generatorStepped time.Duration
	// clockAhead is the lead of the generator's clock over this machine's.
	clockAhead time.Duration
	// slowest is the longest response time of a pod in the warm-up.
	slowest time.Duration
}

// counters holds the counters of worker and proxies at one time, those of proxies by part, and by
// part and hand.
type counters struct {
	worker  workercontrol.Counters
	proxies map[string]observe.ProxyStats
	beside  map[string]observe.ProxyStats // proxies that are not on the way, by node, if they answer
	configs map[string][]byte             // in force after the trial, only then
}

// observed is a window of the generator's intervals [from, to), with the nodes' snapshots or the
// kubelets' samples.
type observed struct {
	from, to int
	sampled  map[string]site.Shots
	host     *observe.Host // next to the nodes, nil if there is none
	kubelets *kubelet.Watch
}

// newTrial prepares a cell's trial.
func newTrial(ctx context.Context, d *deployed, o *runner.Options, job runner.Job) (*trialRun, error) {
	cell := job.Cell
	t := &trialRun{d: d, o: o, id: job.ID, cell: cell,
		server: d.workers[dataplane.ServerVariant(cell).For(job.Repeat)], skew: map[string]time.Duration{}, stepped: map[string]int64{}}
	if t.server == nil {
		return nil, fmt.Errorf("cell %s: its worker is not deployed", cell.Key())
	}
	err := t.setHands(d.loads[dataplane.ClientVariant(cell).For(job.Repeat)])
	if err != nil {
		return nil, err
	}
	if t.spec, err = loadSpec(o.Study, cell, url(t.server.Workload, d.placeOf(t.server), cell, o.Study.Load), job.BlockSeed); err != nil {
		return nil, err
	}
	if d.Kubelets {
		t.spec.DurationS += overdue.Seconds()
	}
	t.spec.Headers = append(t.spec.Headers, d.headers...)
	t.setBeside()
	t.renewBeside(ctx)
	if err := t.spec.Validate(); err != nil {
		return nil, err
	}
	t.findAgents(ctx)
	t.findTargets()
	return t, nil
}

// findTargets lists the containers whose counters give the trial's cost.
func (t *trialRun) findTargets() {
	t.targets = map[string][]observe.Target{}
	add := func(part string, pod site.Pod, container string) {
		if id := pod.Containers[container]; id != "" {
			t.targets[pod.Node] = append(t.targets[pod.Node], observe.Target{Name: part, PodUID: pod.UID, ContainerID: id, MayEnd: slices.Contains(unpassed, part), Pod: pod.Namespace + "/" + pod.Name, Container: container})
		}
	}
	for i, h := range t.hands {
		add(record.OfHand(record.PartGenerator, i), h.pod, site.RoleLoad)
	}
	add(record.PartWorker, t.server.pod, site.RoleWorker)
	if dataplane.NeedsSink(t.cell[dataplane.FactorFilters]) {
		add(record.PartSink, t.d.sinkPod, site.RoleWorker)
	}
	passed := t.passed()
	for _, name := range slices.Sorted(maps.Keys(passed)) {
		for _, container := range containersOf(t.o.Mesh, partOf(name)) {
			add(name, passed[name], container)
		}
	}
	for _, pod := range t.beside {
		for _, container := range t.o.Mesh.Proxies(record.PlaceNode).Containers {
			add(record.PartIdleNode, pod, container)
		}
	}
	for _, pod := range t.agents {
		for _, container := range t.agentsOfMesh().Containers {
			add(record.PartNodeAgent, pod, container)
		}
	}
	for i, pod := range t.d.Control {
		target := observe.Target{Name: fmt.Sprintf("%s-%d", record.PartControl, i), PodUID: pod.UID, Pod: pod.Namespace + "/" + pod.Name}
		if !t.d.Kubelets {
			t.targets[pod.Node] = append(t.targets[pod.Node], target)
			continue
		}
		for target.Container = range pod.Containers { // a pod's own samples come from cAdvisor, and are rare
			t.targets[pod.Node] = append(t.targets[pod.Node], target)
		}
	}
	t.d.WithNodesHere(t.targets)
}

// measure runs the trial and returns its record, not judged yet, and its histogram log. An error
// means that the trial could not be completed.
func (t *trialRun) measure(ctx context.Context) (record.Trial, []byte, error) {
	out := record.Trial{Schema: record.Schema, Cell: t.cell, Deployment: t.d.deployment, Way: t.way, IdleNodes: len(t.beside), NodeAgents: len(t.agents), AgentForSidecars: t.agentServes(),
		Nodes: t.on(), Started: time.Now().UTC()}
	var err error
	if t.before, err = t.count(ctx); err != nil {
		return out, nil, err
	}
	if err := t.measureSkew(ctx); err != nil {
		return out, nil, err
	}
	idle, err := t.idleMemory(ctx)
	if err != nil {
		return out, nil, err
	}
	if err = t.start(ctx, t.spec); err != nil {
		return out, nil, fmt.Errorf("start the generator: %w", err)
	}
	defer t.stop(ctx)
	warm, finished, err := t.warmUp(ctx)
	if err != nil {
		return out, nil, err
	}
	out.Warmup = warm
	loud := runner.Quiet(t.d.tell)
	w, err := t.window(ctx, finished)
	loud()
	if err != nil {
		return out, nil, err
	}
	result, hands, err := t.result(ctx, w.from, w.to)
	if err != nil {
		return out, nil, err
	}
	after, err := t.count(ctx)
	if err == nil {
		t.noteReplaced(ctx)
		after.configs, err = t.readConfigs(ctx)
	}
	if err != nil {
		return out, nil, err
	}
	window, err := result.Window(w.from, w.to)
	if err != nil {
		return out, nil, err
	}
	out.Window = record.Window{
		Start:   time.Unix(0, t.started.StartUnixNS+window.StartNS).UTC(),
		Seconds: float64(window.DurationNS) / 1e9, Intervals: w.to - w.from,
	}
	out.Load, out.Hands = window.Record(t.spec.Rate), hands
	out.Drift = driftOf(result.Intervals[w.from:w.to])
	if w.kubelets != nil {
		t.sampledCosts(&out, w.kubelets)
	} else {
		t.counted(&out, w, idle)
	}
	t.seen.Loops, t.seen.Connections, t.seen.CPUs = t.spec.Threads*len(t.hands), t.spec.Connections, result.CPUs
	if len(hands) > 0 {
		t.seen.Planned = t.spec.Planned(window.StartNS, window.StartNS+window.DurationNS)
	}
	t.seen.Mesh = t.evidence(&out, result, t.before, after)
	t.seen.Configs = map[string]verdict.Dump{}
	for part, config := range after.configs {
		t.seen.Configs[part] = config
	}
	var log bytes.Buffer
	if err := result.WriteLog(&log, w.from, w.to); err != nil {
		return out, nil, fmt.Errorf("histograms: %w", err)
	}
	return out, log.Bytes(), nil
}

// counted records the readings at the edges of the window.
func (t *trialRun) counted(out *record.Trial, w observed, idle map[string]int64) {
	sampled := w.sampled
	t.onlyWhole(out, func(node string, target observe.Target) error {
		_, err := sampled[node].After.Targets[target.Name].Since(sampled[node].Before.Targets[target.Name])
		return err
	})
	t.costs(out, w)
	for part, m := range out.Memory {
		m.IdlePSSBytes = idle[part]
		out.Memory[part] = m
	}
	t.threads(out, sampled)
	t.wholeControl(out)
	t.seen.Edges = t.edges(out.Window, sampled)
}

// count reads the counters of worker and proxies.
func (t *trialRun) count(ctx context.Context) (counters, error) {
	c := counters{proxies: map[string]observe.ProxyStats{}, beside: map[string]observe.ProxyStats{}}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		if c.worker, err = t.server.api.Counters(ctx); err != nil {
			err = fmt.Errorf("counters of the worker: %w", err)
		}
		return err
	})
	var mu sync.Mutex
	for name, pod := range t.passed() {
		part := partOf(name)
		group.Go(func() error {
			stats, err := pod.Proxy.Stats(ctx, proxiesOf(t.o.Mesh, part).Stats)
			if err != nil {
				return fmt.Errorf("counters of %s: %w", nounOf(part), err)
			}
			mu.Lock()
			defer mu.Unlock()
			c.proxies[name] = stats
			return nil
		})
	}
	for node, pod := range t.beside {
		group.Go(func() error {
			// Requests do not depend on it. If it does not answer, the evidence lacks it. A query
			// to a node that is gone would hang until TCP gives up.
			limited, cancel := context.WithTimeout(ctx, idleWait)
			defer cancel()
			if stats, err := pod.Proxy.Stats(limited, t.o.Mesh.Proxies(record.PlaceNode).Stats); err == nil {
				mu.Lock()
				defer mu.Unlock()
				c.beside[node] = stats
			}
			return nil
		})
	}
	err := group.Wait() // c is complete only after this
	return c, err
}

// readConfigs reads the configurations in force in the proxies, by part.
func (t *trialRun) readConfigs(ctx context.Context) (map[string][]byte, error) {
	out := map[string][]byte{}
	for part, pod := range t.proxies {
		dump, err := pod.Proxy.Config(ctx)
		if err != nil {
			return nil, fmt.Errorf("configuration of %s: %w", nounOf(part), err)
		}
		out[part] = dump
	}
	return out, nil
}

// window fixes the window after the intervals finished so far, arms the observers and the
// generator, and waits until it has passed.
func (t *trialRun) window(ctx context.Context, finished int) (observed, error) {
	if t.d.Kubelets {
		return t.windowAmongSamples(ctx, finished)
	}
	interval := dataplane.Of(t.o.Study).Interval
	begin := time.Unix(0, t.started.StartUnixNS)
	from := firstInterval(finished, begin, t.now(), interval, t.slowest)
	to := from + int(dataplane.Of(t.o.Study).Window/interval)
	if err := t.endAfter(ctx, to-1); err != nil {
		return observed{}, fmt.Errorf("end the schedule after the window: %w", err)
	}
	start, end := begin.Add(time.Duration(from)*interval), begin.Add(time.Duration(to)*interval)
	host := t.d.Host()
	sampled, err := t.snapshots(ctx, start, end, func(node string, r *observe.SnapshotsRequest) {
		stepped := t.stepped[node]
		r.SteppedNS, r.Threads, r.Probes = &stepped, true, t.o.Study.Probes()
		r.Memory = t.o.Study.Measured(study.MeasureMemory) || t.o.Study.Measured(study.MeasureConnections)
		r.Processes = host != nil || node == t.server.pod.Node
	})
	if err != nil {
		return observed{}, err
	}
	return observed{from: from, to: to, sampled: sampled, host: t.d.HostAfter(host)}, nil
}

// snapshots reads the trial's targets at two times by the generator's clock. with completes the
// request to a node.
func (t *trialRun) snapshots(ctx context.Context, from, to time.Time, with func(node string, r *observe.SnapshotsRequest)) (map[string]site.Shots, error) {
	shots, err := t.d.Snapshots(ctx, t.targets, func(node string, r *observe.SnapshotsRequest) {
		r.AtUnixNS = []int64{from.Add(t.skew[node]).UnixNano(), to.Add(t.skew[node]).UnixNano()}
		with(node, r)
	})
	out := map[string]site.Shots{}
	for node, at := range shots {
		out[node] = site.Shots{Before: at[0], After: at[1]}
	}
	return out, err
}

// firstInterval returns the first interval of a window that can still be armed at now: its edge is
// far enough ahead for the two requests that arm generator and observers to arrive before it, even
// if they take longer than any so far. If that would delay the window by many intervals it does not
// wait: the schedule ends, and the trial's check of the edges reports the problem.
func firstInterval(finished int, begin, now time.Time, interval, slowest time.Duration) int {
	ahead := 60*time.Millisecond + 3*slowest
	at := finished + 1
	for begin.Add(time.Duration(at)*interval).Sub(now) < ahead && at < finished+lateIntervals {
		at++
	}
	return at
}

// Minimum number of intervals in a schedule beyond the longest warm-up and the window, and by how
// many of them the window may begin late. leastSpare is for short intervals: the schedule must
// outlast a pause of this machine of some seconds.
const (
	spareIntervals = 20
	lateIntervals  = 12
	leastSpare     = 10 * time.Second
)

// spare returns how long a schedule continues, unless ended, beyond the longest warm-up and what
// follows it.
func spare(interval time.Duration) time.Duration { return max(spareIntervals*interval, leastSpare) }

// now returns the time by the generator's clock, if known: on another machine an unknown offset
// only shifts the window.
func (t *trialRun) now() time.Time { return time.Now().Add(t.clockAhead) }
