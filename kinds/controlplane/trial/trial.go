package trial

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/drive/churn"
	"github.com/meshtrial/meshtrial/drive/population"
	"github.com/meshtrial/meshtrial/drive/xds"
	"github.com/meshtrial/meshtrial/internal/ending"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/kinds/controlplane/verdict"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/run/runner/hands"
	"github.com/meshtrial/meshtrial/run/site"
)

// controlTrial is one running control-plane trial.
type controlTrial struct {
	c      *controlPlane
	job    runner.Job
	out    record.Trial
	levels controlplane.Levels
	levers mesh.Levers
	// known holds the levers completed with the values found for those that the cell does not name.
	// levels are completed likewise once istiod has been asked.
	known mesh.Levers
	sizes population.Sizes

	fleet   *fleet
	ids     []population.Identity
	applied mesh.Applied
	plan    *churn.Plan
	driver  *churn.Driver

	seen    verdict.Evidence
	targets map[string][]observe.Target
	envoys  *envoyWatch
	traffic *trafficWitness // nil without traffic
	// probing means that requests are sent to routes through the gateway.
	probing  bool
	attached *attachedWatch // nil without routes of the Gateway API
	logs     *logWatch      // nil if istiod's log is read after the window
	idleAPI  apiIdle

	before, after          planeState
	idleStart, idleEnd     map[string]observe.Snapshot // by node
	windowStart, windowEnd map[string]observe.Snapshot
	host                   *observe.Host // next to the node, nil if there is none
}

// newControlTrial prepares a trial.
func newControlTrial(c *controlPlane, job runner.Job) (*controlTrial, error) {
	t := &controlTrial{c: c, job: job, out: record.Trial{Schema: record.Schema, Cell: job.Cell, Started: time.Now().UTC(), Control: &record.Control{}}}
	var err error
	if t.levels, err = controlplane.LevelsOf(job.Cell); err != nil {
		return t, err
	}
	t.sizes = sizesOf(controlplane.Of(c.study), t.levels)
	t.levers = leversOf(controlplane.Of(c.study), job.Cell, t.sizes)
	return t, nil
}

// measure runs the trial. An error means that it could not be completed.
func (t *controlTrial) measure(ctx context.Context) (done runner.Completed, err error) {
	defer func() {
		if done.Evidence == nil { // it reached no verdict
			t.out.Validity.Warnings = t.seen.Problems
		}
		done.Trial = t.out
	}()
	defer func() { err = errors.Join(err, cleanUp(ctx, t.driver)) }()
	defer func() { t.attached.stop() }()
	if err := t.prepare(ctx); err != nil {
		return done, err
	}
	t.fleet = newFleet(t.c.simulators[:t.levels.Simulators])
	defer func() { // even if the run itself was cancelled
		ctx, cancel := ending.Within(ctx, site.StopTimeout)
		defer cancel()
		t.fleet.stop(ctx)
	}()
	if err := t.connect(ctx); err != nil {
		return done, t.fleet.asLost(ctx, err)
	}
	defer runner.Quiet(t.c.tell)() // also for the disruption after the window
	if err := t.fleet.asLost(ctx, t.window(ctx)); err != nil {
		if errors.Is(err, hands.ErrLost) { // what the others saw is no trial
			return done, err
		}
		if done.Events = t.salvage(ctx); done.Events != nil {
			done.Evidence = t.seen
		}
		return done, err
	}
	t.collect(ctx)
	done.Files = append(t.configs(ctx), t.profiles(ctx)...)
	if err := t.detach(ctx); err != nil {
		return done, err
	}
	if err := t.disrupt(ctx); err != nil {
		return done, err
	}
	t.out, done.Events = t.judge()
	done.Evidence = t.seen
	t.out.Ended = time.Now().UTC()
	return done, ctx.Err()
}

// judge completes the trial's record from the evidence, and records the true convergence of its
// changes.
func (t *controlTrial) judge() (record.Trial, []record.Event) {
	out, events := verdict.Of(t.out, t.seen, t.c.o.Rules.Limits)
	if err := t.recordConvergence(events); err != nil {
		t.warn(noteOwnSeries, err)
		return verdict.Of(t.out, t.seen, t.c.o.Rules.Limits)
	}
	return out, events
}

// salvage accounts, as far as possible, for the changes of a trial that failed after making them.
func (t *controlTrial) salvage(ctx context.Context) []record.Event {
	if ctx.Err() != nil || t.seen.Changes == nil {
		return nil
	}
	if t.out.Window.Seconds == 0 {
		if err := t.sight(ctx); err != nil {
			t.seen.Audience = verdict.Audience{} // without it no proxy can be said to need, or to lack, anything
		}
	}
	var events []record.Event
	t.out, events = verdict.Salvage(t.out, t.seen)
	return events
}

// prepare brings population and istiod to the cell's levels, and creates what the changes need.
func (t *controlTrial) prepare(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, populationTimeout)
	defer cancel()
	t.c.say("%d Services, %d simulated proxies", t.sizes.Services, t.levels.Connected())
	var err error
	if t.ids, err = t.c.world.Ensure(limited, t.sizes); err != nil {
		return err
	}
	if !t.c.living {
		t.c.say("a fresh istiod with the cell's levers")
	}
	if t.applied, err = t.c.mesh.Apply(ctx, t.levers, !t.c.living); err != nil { // it has its own limit
		return fmt.Errorf("set the levers: %w", err)
	}
	limited, cancel = context.WithTimeout(ctx, populationTimeout)
	defer cancel()
	t.c.living = controlplane.Of(t.c.study).Soak
	if err := t.learn(limited); err != nil {
		return err
	}
	if err := t.c.ensureReal(limited, t.levels, t.known, t.fresh()); err != nil {
		return err
	}
	if err := t.c.ensureTraffic(limited, t.known); err != nil {
		return err
	}
	if err := t.c.ensureGateway(limited, t.known); err != nil {
		return err
	}
	if err := t.c.awaitIstiodObserved(limited); err != nil {
		return err
	}
	if t.plan, err = churn.NewPlan(churnSpec(t.c.study, t.job.Cell, t.levels, t.label(), t.job.Seed)); err != nil {
		return err
	}
	t.driver, err = t.c.newDriver(limited, t.plan)
	t.seen.Asked, t.seen.Audience, t.seen.Misbehaving = t.asked(), t.audience(), badProxies(controlplane.Of(t.c.study), t.levels, t.ids)
	return err
}

// newDriver creates a driver of planned changes, and the objects that it needs beforehand. It leaves
// nothing behind if it fails.
func (c *controlPlane) newDriver(ctx context.Context, plan *churn.Plan) (*churn.Driver, error) {
	driver, err := churn.NewDriver(c.config, plan)
	if err != nil {
		return nil, err
	}
	if err := driver.Prepare(ctx); err != nil {
		return nil, errors.Join(err, cleanUp(ctx, driver))
	}
	return driver, nil
}

// Limits of the wait until all proxies are connected and have everything.
const (
	connectLeast = 2 * time.Minute
	connectEach  = 200 * time.Millisecond // per proxy, at istiod's own request limit and worse
	connectWaits = 3                      // consecutive waits of that length
	statusEvery  = 250 * time.Millisecond
)

// connect starts the fleet and waits until it is quiet.
func (t *controlTrial) connect(ctx context.Context) error {
	begin := time.Now()
	if len(t.ids) > 0 {
		if err := t.startFleet(ctx); err != nil {
			return err
		}
	}
	if err := t.awaitElected(ctx); err != nil {
		return err
	}
	if err := t.awaitGateway(ctx); err != nil {
		return err
	}
	if len(t.ids) > 0 {
		for _, wait := range [connectWaits]func(context.Context) error{t.awaitQuiet, t.awaitStill, t.awaitQuiet} { // the last wait covers the effects of the second
			limited, cancel := context.WithTimeout(ctx, connectLeast+time.Duration(len(t.ids))*connectEach)
			err := wait(limited)
			cancel()
			if err != nil {
				return err
			}
		}
	} else if err := t.awaitStill(ctx); err != nil { // only real sidecars, which are ready
		return err
	}
	t.out.Warmup = record.Warmup{Seconds: time.Since(begin).Seconds(), Steady: true,
		Why: fmt.Sprintf("%s connected and nothing was sent for %v", words.Plural(len(t.ids)+len(t.c.reals), "proxy"), controlplane.Of(t.c.study).Quiet)}
	return nil
}

func (t *controlTrial) startFleet(ctx context.Context) error {
	spec, err := t.fleetSpec(ctx, t.levels, t.ids, t.tokenLife())
	if err != nil {
		return err
	}
	if err := t.fleet.start(ctx, spec); err != nil {
		return fmt.Errorf("start the simulated sidecars: %w", err)
	}
	return nil
}

// fleetSpec returns the specification of some proxies, with tokens if they present any.
func (t *controlTrial) fleetSpec(ctx context.Context, l controlplane.Levels, ids []population.Identity, life time.Duration) (xds.Spec, error) {
	d, err := t.c.mesh.Discovery(ctx, t.c.Namespace)
	if err != nil {
		return xds.Spec{}, err
	}
	spec, err := fleetSpec(controlplane.Of(t.c.study), l, ids, d, t.job.Seed)
	if err == nil && spec.Security.Mode != xds.SecurityPlaintext {
		spec.Security.Tokens, err = t.c.tokens(ctx, ids, d.Audience, life)
	}
	return spec, err
}

// restlessAge is the minimum of the maximum connection age at which all proxies can be quiet at
// once.
const restlessAge = 10 * time.Minute

// awaitQuiet waits until all proxies are connected, have everything and have received nothing for a
// while. Misbehaving proxies may never get there: then the others suffice, and it does not wait for
// proxies that reconnect forever.
func (t *controlTrial) awaitQuiet(ctx context.Context) error {
	quiet := int64(controlplane.Of(t.c.study).Quiet)
	bad := len(badProxies(controlplane.Of(t.c.study), t.levels, t.ids))
	restless := t.levels.Clients == controlplane.ClientsReconnectStorm
	if age := t.levels.ConnectionAge; t.levers.Named(controlplane.FactorConnectionAge) && age > 0 && age < restlessAge {
		bad, restless = verdict.Away(len(t.ids), age), true
	}
	var enough time.Time
	for last := ""; ; {
		s, err := t.fleet.status(ctx)
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("watch the simulated sidecars: %w", err)
		}
		now := fmt.Sprintf("%d of %d proxies connected, %d have everything", s.Connected, s.Proxies, s.Synced)
		if now != last && err == nil {
			t.c.say("%s", now)
			last = now
		}
		there := err == nil && s.Synced >= s.Proxies-bad
		if there && enough.IsZero() {
			enough = time.Now()
		}
		if there && (s.NowUnixNS-s.LastMessageUnixNS >= quiet || restless && time.Since(enough) >= controlplane.Of(t.c.study).Quiet) {
			return nil
		}
		if err := wake.Pause(ctx, statusEvery); err != nil {
			why := ""
			if s.LastError != "" {
				why = "; the last error: " + s.LastError
			}
			return fmt.Errorf("wait for the simulated sidecars (%s%s): %w", last, why, err)
		}
	}
}

// cleanTimeout limits the removal of a trial's changes.
const cleanTimeout = 2 * time.Minute

// cleanUp removes what changes created, even if the run itself was cancelled.
func cleanUp(ctx context.Context, driver *churn.Driver) error {
	if driver == nil {
		return nil
	}
	ctx, cancel := ending.Within(ctx, cleanTimeout)
	defer cancel()
	if err := driver.Cleanup(ctx); err != nil {
		return fmt.Errorf("remove the changed objects: %w", err)
	}
	return nil
}

// warn adds a note for readers of the trial.
func (t *controlTrial) warn(k *note.Kind, args ...any) {
	t.seen.Problems = append(t.seen.Problems, k.Of(args...))
}

// findTargets lists the containers whose counters give the trial's cost.
func (t *controlTrial) findTargets(ctx context.Context) error {
	t.targets = map[string][]observe.Target{}
	pods, err := t.c.mesh.Pods(ctx)
	if err != nil {
		return err
	}
	add := func(node, part string, i int, pod, container string) {
		t.targets[node] = append(t.targets[node], observe.Target{Name: fmt.Sprintf("%s-%d", part, i), PodUID: pod, ContainerID: container})
	}
	addProxy := func(part string, i int, p site.Pod) {
		for _, name := range mesh.Sidecars(t.c.o.Mesh).Containers {
			if id := p.Containers[name]; id != "" {
				add(p.Node, part, i, p.UID, id)
			}
		}
	}
	for i, p := range pods {
		add(p.Node, record.PartControl, i, p.UID, p.Containers[p.Container])
	}
	for i, p := range t.fleet.Pods {
		add(p.Node, record.PartSimulator, i, p.UID, p.Containers[site.RoleXDS])
	}
	for i, p := range t.c.reals {
		addProxy(record.PartServerProxy, i, p)
	}
	if g := t.c.gateway; g != nil {
		addProxy(record.PartGateway, 0, g.pod)
		add(g.backend.Node, record.PartWorker, 0, g.backend.UID, g.backend.Containers[site.RoleWorker])
	}
	t.c.WithNodesHere(t.targets)
	return nil
}

// snapshot reads the counters of all nodes at an edge of a window, including their other processes.
func (t *controlTrial) snapshot(ctx context.Context, memory bool, edge observe.Edge) (map[string]observe.Snapshot, error) {
	return t.c.Snapshot(ctx, t.targets, observe.SnapshotsRequest{Memory: memory, Threads: t.weighsSidecars(), Processes: true, Edge: edge})
}
