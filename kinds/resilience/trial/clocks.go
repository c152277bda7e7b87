package trial

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/meshtrial/meshtrial/internal/jsonhttp"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/kinds/resilience/verdict"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/runner/hands"
)

// Limit and interval of waiting for a role to listen once its container runs.
const (
	roleTime  = 10 * time.Second
	roleEvery = 100 * time.Millisecond
)

// compareClocks measures the clocks of all nodes that have an observer. Their offset from the
// runner's clock is subtracted from all times that pods write there.
func (s *stage) compareClocks(ctx context.Context) (err error) {
	s.ahead = map[string]int64{}
	s.clocks, err = s.clocksOf(ctx, slices.Sorted(maps.Keys(s.Observers)), roleTime)
	for node, c := range s.clocks {
		s.ahead[node] = int64(c.Ahead)
	}
	return err
}

// clocksAtOnce is the number of nodes whose clocks are compared concurrently.
const clocksAtOnce = 8

// clocksOf compares the nodes' clocks with the runner's and retries nodes that do not answer until
// patience expires. The error names the nodes that never answered.
func (s *stage) clocksOf(ctx context.Context, nodes []string, patience time.Duration) (map[string]verdict.Clock, error) {
	var group errgroup.Group
	group.SetLimit(clocksAtOnce)
	var mu sync.Mutex
	out, failed := map[string]verdict.Clock{}, make([]error, len(nodes))
	for i, node := range nodes {
		ask := func() (jsonhttp.Clock, error) { return s.Observers[node].Clock(ctx) }
		group.Go(func() error {
			c, err := hands.Compare(ask)
			for since := time.Now(); err != nil && time.Since(since) < patience && wake.Pause(ctx, roleEvery) == nil; {
				c, err = hands.Compare(ask) // it may not listen yet
			}
			if err != nil {
				failed[i] = fmt.Errorf("compare clocks with node %s: %w", node, err)
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			out[node] = verdict.Clock{Ahead: c.Ahead, Bound: c.Bound}
			return nil
		})
	}
	_ = group.Wait()
	return out, errors.Join(failed...)
}

// againTime limits the second comparison of clocks, and againPatience the time spent on nodes that
// a step has ended.
const (
	againTime     = 20 * time.Second
	againPatience = time.Second
)

// compareAgain repeats the comparison for the nodes that had pods of the trial, since times from a
// clock that was set in between cannot be corrected.
func (t *scenarioTrial) compareAgain(ctx context.Context, pods []record.ScenarioPod) {
	limited, cancel := context.WithTimeout(ctx, againTime)
	defer cancel()
	on := map[string]verdict.Clock{}
	for _, pod := range pods {
		if before, ok := t.clocks[pod.Node]; ok {
			on[pod.Node] = before
		}
	}
	var err error
	t.before = on
	if t.after, err = t.clocksOf(limited, slices.Sorted(maps.Keys(on)), againPatience); err != nil {
		t.unmeasured("clock offsets after the timeline are unknown for some nodes: %s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
}
