package trial

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
)

// entries sums what the pods of a gateway count. A proxy that restarts counts from zero again.
type entries struct {
	last map[string]mesh.Entered // by pod and container
	sum  map[string]mesh.Entered // by pod
}

// add adds a reading. counted says that what came before it counts too: the process began after
// the first readings. Otherwise only connections that are open count.
func (e *entries) add(pod, process string, now mesh.Entered, counted bool) {
	before, known := e.last[process]
	if !known && !counted {
		before = now
		before.Connections -= now.Active
	}
	e.last[process] = now
	sum := e.sum[pod]
	sum.Connections += now.Connections - before.Connections
	sum.Closed += now.Closed - before.Closed
	sum.Requests += now.Requests - before.Requests
	e.sum[pod] = sum
}

// gateways reads the counters of the gateway's pods that are not being stopped: those that are
// close connections on purpose.
func (l *looks) gateways(ctx context.Context, m mesh.EntryCounter, name string, first bool) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, r := range l.t.census.living(name) {
		process := r.Name + "/" + r.containers[mesh.Sidecars(l.t.scene.mesh).Containers[0]]
		group.Go(func() error {
			stats, err := l.t.admin(r).Stats(ctx, m.EnteredFilter())
			switch {
			case !l.t.census.lives(r.uid):
				return nil
			case err != nil && (!r.ready || disturbs(&l.t.timeline, name)):
				return nil
			case err != nil:
				return fmt.Errorf("connections of gateway %s: %w", r.Name, err)
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			l.entered.add(r.Name, process, m.Entered(stats), !first)
			return nil
		})
	}
	return group.Wait()
}

// entered returns the counts of a gateway's pods.
func (l *looks) enteredBy() []record.ScenarioGateway {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []record.ScenarioGateway
	for _, pod := range slices.Sorted(maps.Keys(l.entered.sum)) {
		e := l.entered.sum[pod]
		out = append(out, record.ScenarioGateway{Pod: pod, Connections: e.Connections, Closed: e.Closed, Requests: e.Requests})
	}
	return out
}
