package trial

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/drive/population"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
)

// join connects one more proxy of the scope's namespace, with the identity of the last pod there,
// and records how it received its configuration. It runs after the window, so that it affects
// nothing that was counted. If it fails the trial stays valid, with a note.
func (t *controlTrial) join(ctx context.Context) {
	if len(t.ids) == 0 || !t.c.study.Measured(controlplane.MeasureConfig) {
		return
	}
	j, err := t.joined(ctx)
	if err != nil {
		t.warn(noteJoin, err)
		return
	}
	t.out.Control.Join = j
}

func (t *controlTrial) joined(ctx context.Context) (*record.Join, error) {
	id, err := t.c.world.Newest(ctx, t.levers.Namespaces[0], t.ids)
	if err != nil {
		return nil, err
	}
	levels := t.levels
	levels.Clients = controlplane.ClientsGood
	spec, err := t.fleetSpec(ctx, levels, []population.Identity{id}, tokenLeast)
	if err != nil {
		return nil, err
	}
	t.c.say("one more proxy, %s.%s", id.Name, id.Namespace)
	before, err := t.scrape(ctx)
	if err != nil {
		return nil, err
	}
	j, err := t.fleet.apis[0].Join(ctx, spec)
	if err != nil {
		return nil, err
	}
	after, err := t.scrape(ctx)
	if err != nil {
		return nil, err
	}
	if rises, err := after.Since(before); err == nil { // else a replica has come or gone
		j.CacheHits, j.CacheMisses = rises[`xds_cache_reads{type="hit"}`], rises[`xds_cache_reads{type="miss"}`]
	}
	return j, nil
}

// awaitElected waits until a fresh istiod has finished the work that follows its election: a full
// push, up to half a minute after it is ready, which is not part of the cost of changes. If that
// cannot be observed the trial continues, with a note.
func (t *controlTrial) awaitElected(ctx context.Context) error {
	if !t.applied.Restarted {
		return nil
	}
	if err := t.c.mesh.AwaitElected(ctx); err != nil {
		if ctx.Err() != nil {
			return err
		}
		t.warn(noteElectionPush, err)
	}
	return nil
}

// stillLimit limits the wait until the mesh stops changing.
const stillLimit = 100 * time.Second

// awaitStill waits until istiod receives no changes: an istiod that keeps receiving them rarely
// pushes, since it waits for more, and appears quiet. Istiod itself changes ServiceEntries: it
// assigns an address to each, one by one. If changes never end in the cluster the trial continues,
// with a note.
func (t *controlTrial) awaitStill(ctx context.Context) error {
	wait := max(controlplane.Of(t.c.study).Quiet, t.levels.DebounceAfter+settleQuiet)
	before, err := t.scrape(ctx)
	if err != nil {
		return err
	}
	for limit := time.Now().Add(stillLimit); ; {
		if err := wake.Pause(ctx, wait); err != nil {
			return err
		}
		after, err := t.scrape(ctx)
		if err != nil {
			return err
		}
		updates, err := inbound(before, after)
		switch {
		case updates == 0 && err == nil:
			return nil
		case time.Now().After(limit):
			t.warn(noteNeverStill, updates, wait)
			return nil
		}
		t.c.say("istiod still receives changes: %.0f in %v", updates, wait)
		before = after
	}
}

// inbound returns the number of changes that istiod received between two scrapes.
func inbound(before, after observe.Scrape) (float64, error) {
	rises, err := after.Since(before) // an error: a replica has come or gone
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for series, rise := range rises {
		if strings.HasPrefix(series, metricInbound) {
			sum += rise
		}
	}
	return sum, nil
}

// metricInbound counts the changes that istiod receives, by type. See
// istio.io/istio/pilot/pkg/xds/monitoring.go.
const metricInbound = "pilot_inbound_updates"

// scrape reads the metrics of all replicas.
func (t *controlTrial) scrape(ctx context.Context) (observe.Scrape, error) {
	pods, err := t.c.mesh.Pods(ctx)
	if err != nil {
		return observe.Scrape{}, err
	}
	s, err := observe.ScrapeAll(ctx, t.c.replicas(pods))
	if err != nil {
		return s, fmt.Errorf("metrics of istiod: %w", err)
	}
	return s, nil
}
