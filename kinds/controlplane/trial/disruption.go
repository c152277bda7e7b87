package trial

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/meshtrial/meshtrial/drive/xds"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/kinds/controlplane/verdict"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/runner/hands"
	"github.com/meshtrial/meshtrial/study"
)

// Timing of readings in the aftermath of a disruption.
const (
	lookEvery = time.Second
	lookLimit = 5 * time.Second
	backEvery = 500 * time.Millisecond // interval of checks whether all are back
	readyLook = 100 * time.Millisecond
	// readyGrace is how much longer than the study's watch istiod may take to become ready: it
	// drains, and its pod has to be created.
	readyGrace = 20 * time.Second
)

// disrupt ends all connections as the cell requires, and watches them return. It comes last, so
// that it affects nothing that was counted. If it cannot be carried out the trial is invalid; the
// error is that of a lost simulator.
func (t *controlTrial) disrupt(ctx context.Context) error {
	if t.levels.Disruption.Kind == "" || ctx.Err() != nil {
		return nil
	}
	seen, err := t.disruption(ctx)
	switch err = t.fleet.asLost(ctx, err); {
	case errors.Is(err, hands.ErrLost):
		return err
	case err != nil:
		t.seen.Unread = append(t.seen.Unread, record.Check{Name: "disruption", Detail: err.Error()})
	default:
		t.seen.Disruption = seen
	}
	return nil
}

func (t *controlTrial) disruption(ctx context.Context) (*verdict.Disruption, error) {
	d := t.levels.Disruption
	f, _ := study.FactorByName(controlplane.FactorDisruption)
	t.c.say("%s", f.Label(t.job.Cell[controlplane.FactorDisruption]))
	old, err := t.c.mesh.Pods(ctx)
	if err != nil {
		return nil, err
	}
	seen := &verdict.Disruption{Kind: d.Kind, Replicas: max(len(old), d.Replicas)}
	t.sample(ctx, seen)
	began := time.Now()
	seen.BeganNS = began.UnixNano()
	if err := t.fleet.beginOutage(ctx, d.Kind == controlplane.DisruptionDrop); err != nil {
		return nil, fmt.Errorf("notify the simulated sidecars: %w", err)
	}
	stop := every(ctx, lookEvery, func(ctx context.Context) { t.sample(ctx, seen) })
	defer stop()
	if err := t.act(ctx, d, old, &seen.ReadyNS); err != nil {
		return nil, err
	}
	limit := time.Now()
	switch {
	case seen.ReadyNS == verdict.NotReady: // no proxy can be back
	case d.Restarts():
		limit = began.Add(controlplane.Of(t.c.study).Aftermath + readyGrace)
	default:
		limit = limit.Add(controlplane.Of(t.c.study).Aftermath)
	}
	if seen.Outage, err = t.awaitBack(ctx, d, limit); err != nil {
		return nil, err
	}
	stop()
	t.sample(ctx, seen)
	seen.EndedNS = time.Now().UnixNano()
	return seen, ctx.Err()
}

// act disrupts istiod, and returns when the resulting replicas were ready, in Unix nanoseconds, or
// [verdict.NotReady] if they were not within the time that the study watches.
func (t *controlTrial) act(ctx context.Context, d controlplane.Disruption, old []mesh.ControlPod, readyNS *int64) error {
	var do func(context.Context) error
	within := controlplane.Of(t.c.study).Aftermath + readyGrace
	levers := t.levers
	levers.Wait = max(levers.Wait, 2*within) // this wait's own limit ends it
	come := len(old)
	switch d.Kind {
	case controlplane.DisruptionRestart:
		do = func(ctx context.Context) error { _, err := t.c.mesh.Apply(ctx, levers, true); return err }
	case controlplane.DisruptionKill:
		do = t.c.mesh.Kill
	case controlplane.DisruptionScale:
		come = d.Replicas - len(old)
		do = func(ctx context.Context) error {
			_, err := t.c.mesh.Apply(ctx, levers.With(controlplane.FactorIstiodReplicas, fmt.Sprint(d.Replicas)), false)
			return err
		}
	default:
		return nil
	}
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	ready := make(chan int64, 1)
	go func() { ready <- t.readyAt(watching, old, come) }()
	limited, over := context.WithTimeout(ctx, within)
	defer over()
	if err := do(limited); err != nil {
		if limited.Err() != nil && ctx.Err() == nil {
			*readyNS = verdict.NotReady
			return nil
		}
		return fmt.Errorf("disruption %s: %w", d.Kind, err)
	}
	select { // it is set by now, or a reading was in progress
	case *readyNS = <-ready:
	case <-time.After(lookLimit):
		cancel()
		<-ready
	}
	return ctx.Err()
}

// readyAt returns when this many replicas of istiod besides the old ones were ready, in Unix
// nanoseconds, or 0 if the context ended first.
func (t *controlTrial) readyAt(ctx context.Context, old []mesh.ControlPod, come int) int64 {
	for {
		at := time.Now().UnixNano()
		pods, err := t.c.mesh.Pods(ctx)
		fresh := slices.DeleteFunc(pods, func(p mesh.ControlPod) bool {
			return slices.ContainsFunc(old, func(o mesh.ControlPod) bool { return o.UID == p.UID })
		})
		if err == nil && len(fresh) >= come {
			return at
		}
		if wake.Pause(ctx, readyLook) != nil {
			return 0
		}
	}
}

// awaitBack waits until every proxy has lost its stream and has its whole configuration again, up
// to a limit. When istiod is scaled, proxies need not lose their streams, so it waits for the whole
// limit. A proxy that starts without a stream has none to lose.
func (t *controlTrial) awaitBack(ctx context.Context, d controlplane.Disruption, limit time.Time) (xds.Outage, error) {
	for {
		o, err := t.fleet.outage(ctx)
		if err != nil {
			return o, fmt.Errorf("watch the simulated sidecars: %w", err)
		}
		if o.Over() && d.Kind != controlplane.DisruptionScale || time.Now().After(limit) {
			return o, nil
		}
		if err := wake.Pause(ctx, backEvery); err != nil {
			return o, err
		}
	}
}

// every calls f at each interval until stop is called, which may be called more than once. No call
// is in progress then.
func every(ctx context.Context, interval time.Duration, f func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				f(ctx)
			}
		}
	})
	return func() { cancel(); done.Wait() }
}

// sample reads istiod's replicas, and the number of proxies that have everything, and records what
// it could not read. A cancelled reading does not count.
func (t *controlTrial) sample(ctx context.Context, seen *verdict.Disruption) {
	limited, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	l, err := t.lookAround(limited)
	if ctx.Err() != nil {
		return
	}
	l.Incomplete = err != nil
	seen.Looks = append(seen.Looks, l)
	if err != nil && seen.Why == "" {
		seen.Why = err.Error()
	}
}

// lookAround reads what each replica of istiod uses, and the number of connections it counts. The
// error names what could not be read; the rest is returned.
func (t *controlTrial) lookAround(ctx context.Context) (verdict.Look, error) {
	l := verdict.Look{AtNS: time.Now().UnixNano()}
	status, err := t.fleet.status(ctx)
	l.Synced = status.Synced
	pods, podsErr := t.c.mesh.Started(ctx)
	err = errors.Join(err, podsErr)
	for _, p := range pods {
		r := verdict.LookReplica{Pod: p.Name, Ready: p.Ready, Connections: -1, CPUNS: -1}
		err = errors.Join(err, t.weigh(ctx, p, &r))
		if p.Ready {
			page, pageErr := observe.Fetch(ctx, t.c.istiodHTTP(p), "http://"+p.Name+"/metrics")
			if pageErr == nil { // without the series there are no connections
				connected, _ := observe.Sum(page, "pilot_xds", nil)
				r.Connections = int(connected)
			}
			err = errors.Join(err, pageErr)
		}
		l.Replicas = append(l.Replicas, r)
	}
	return l, err
}

// weigh reads what a replica of istiod uses.
func (t *controlTrial) weigh(ctx context.Context, p mesh.ControlPod, r *verdict.LookReplica) error {
	o, err := t.c.observerOf(p.Node)
	if err != nil {
		return err
	}
	s, err := o.Snapshot(ctx, []observe.Target{{Name: p.Name, PodUID: p.UID, ContainerID: p.Containers[p.Container]}}, true)
	if err != nil {
		return fmt.Errorf("observe node %s: %w", p.Node, err)
	}
	sample := s.Targets[p.Name]
	if sample.Error != "" {
		return fmt.Errorf("%s: %s", p.Name, sample.Error)
	}
	r.CPUNS, r.CPUAtNS = int64(sample.CPU.TotalNS), sample.AtUnixNS
	if m := sample.Memory; m != nil {
		if r.MemoryBytes = m.PSSBytes; r.MemoryBytes == 0 {
			r.MemoryBytes = m.CgroupBytes
		}
	}
	return nil
}
