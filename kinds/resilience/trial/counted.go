package trial

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/observe"
)

// costLead is the time before the timeline at which CPU counting begins. The first sample also
// reads what else runs on the machine, which takes some tens of milliseconds and must not delay the
// first requests.
const costLead = 100 * time.Millisecond

// count samples the counters until ctx ends, starting right before the timeline: activity without
// requests is not part of their cost.
func (l *looks) count(ctx context.Context, look func(context.Context) error) {
	begin := l.t.zero.Add(-costLead)
	if wake.Pause(ctx, time.Until(begin)) != nil {
		return
	}
	l.host = l.t.Host() // read before the counters
	l.every(ctx, ofCounters, begin, costEvery, look)
}

// nodesAtOnce is the number of nodes whose counters are read concurrently.
const nodesAtOnce = 16

// idleLook limits the sample of a node without pods of the trial: the next sample of all others
// waits for it, and samples must not be much further apart.
const idleLook = 3 * time.Second

// cost reads the counters of everything alive, and of machines. Nodes without pods of the trial
// only show what else ran there between the first and the last sample, so intermediate samples skip
// them.
func (l *looks) cost(ctx context.Context, memory bool) error {
	targets, parts := l.t.targets()
	l.mu.Lock()
	if !memory && (l.there == nil || l.cancel == nil) {
		l.t.WithNodesHere(targets)
	}
	if l.there == nil {
		l.there, l.nodes, l.unread = parts, map[string]bool{}, map[string]error{}
		for node, pods := range targets {
			l.nodes[node] = len(pods) > 0
		}
	}
	l.mu.Unlock()
	var group errgroup.Group
	group.SetLimit(nodesAtOnce)
	nodes := slices.Sorted(maps.Keys(targets))
	failed := make([]error, len(nodes))
	for i, node := range nodes {
		group.Go(func() error {
			if len(targets[node]) > 0 {
				failed[i] = l.read(ctx, node, targets[node], parts, memory)
				return nil
			}
			limited, cancel := context.WithTimeout(ctx, idleLook)
			defer cancel()
			if err := l.read(limited, node, nil, parts, memory); err != nil {
				l.mu.Lock()
				defer l.mu.Unlock()
				l.unread[node] = err
			}
			return nil
		})
	}
	_ = group.Wait()
	return errors.Join(failed...)
}

// read reads the counters of targets on a node.
func (l *looks) read(ctx context.Context, node string, targets []observe.Target, parts map[string]string, memory bool) error {
	observer, ok := l.t.observerAt(node)
	if !ok { // it joined after the trial began, or has no observer
		return fmt.Errorf("no observer runs on node %s, which has pods of the trial", node)
	}
	l.mu.Lock()
	_, known := l.machine[0][node]
	_, begins := l.nodes[node]
	first := !known && begins
	ends, edge := !memory && (first || l.cancel == nil), observe.Begin
	l.mu.Unlock()
	if !first {
		edge = observe.End
	}
	shot, err := observer.One(ctx, observe.SnapshotsRequest{Targets: targets, Memory: memory, Processes: ends, Edge: edge})
	if err != nil {
		return fmt.Errorf("observe node %s: %w", node, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if memory {
		for name, s := range shot.Targets {
			if s.Memory != nil {
				l.memory[parts[name]] += max(s.Memory.PSSBytes, 0)
			}
		}
	}
	for _, target := range targets {
		l.away[target.Name] = shot.Targets[target.Name].Error != ""
	}
	if !known {
		l.machine[0][node] = shot.Machine
	}
	if ends {
		shots := l.others[node]
		if first {
			shots.Before = shot
		} else {
			shots.After = shot
		}
		l.others[node] = shots
	}
	if !memory {
		l.machine[1][node] = shot.Machine
		l.add(shot, parts)
		begun := l.machine[0][node]
		at := begun.AtUnixNS + int64(shot.Machine.Elapsed(begun)) - l.t.ahead[node] // even if its clock was set
		if first && l.nodes[node] {
			l.begun = max(l.begun, at)
		}
		if len(targets) > 0 { // a node without pods is no longer read, or may answer late
			l.ended = max(l.ended, at)
		}
	}
	return nil
}

// unseen names a node on a shared machine that was not read from its first sample to the last, or
// returns nil. The caller holds the lock.
func (l *looks) unseen(first observe.MachineSample) error {
	for _, node := range slices.Sorted(maps.Keys(l.nodes)) {
		shots := l.others[node]
		late := time.Duration(shots.Before.Machine.AtUnixNS - first.AtUnixNS)
		if shots.Before.Processes != nil && shots.After.Processes != nil && late <= idleLook {
			continue
		}
		if err := l.unread[node]; err != nil {
			return err
		}
		return fmt.Errorf("the processes of node %s were not read from the first look to the last", node)
	}
	return nil
}

// counted returns the time over which CPU was counted, in seconds.
func (l *looks) counted() float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.begun == 0 {
		return 0
	}
	return float64(max(l.ended-l.begun, 0)) / 1e9
}
