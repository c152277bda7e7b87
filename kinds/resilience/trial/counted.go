package trial

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
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
	if !memory {
		l.peopled = map[string]bool{}
		for node, pods := range targets {
			if len(pods) > 0 {
				l.peopled[node] = true
			}
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
	begun, ended := l.span()
	return float64(max(ended-begun, 0)) / 1e9
}

// span returns the period over which CPU was counted, by the runner's clock. It begins when the
// last node with pods of the trial in the first sample had been read. It ends with the last sample
// of any node that still has pods, since an idle node may answer late. A node that steps brought
// pods to later starts with them, and one without pods is no longer read. If only such nodes are
// left, the last sample of any node ends the period.
func (l *looks) span() (begun, ended int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := func(node string, s observe.MachineSample) int64 {
		if first, ok := l.machine[0][node]; ok {
			return first.AtUnixNS + int64(s.Elapsed(first)) - l.t.ahead[node]
		}
		return s.AtUnixNS - l.t.ahead[node]
	}
	begun, ended = math.MinInt64, math.MinInt64
	for node, first := range l.machine[0] {
		if l.nodes[node] {
			begun = max(begun, at(node, first))
		}
	}
	idle := int64(math.MinInt64)
	for node, last := range l.machine[1] {
		if l.peopled[node] {
			ended = max(ended, at(node, last))
		} else {
			idle = max(idle, at(node, last))
		}
	}
	if ended == math.MinInt64 {
		ended = idle
	}
	if begun == math.MinInt64 {
		return 0, 0
	}
	return begun, ended
}
