package site

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
)

// Shots has a node's snapshots at the edges of a window.
type Shots struct{ Before, After observe.Snapshot }

// Snapshots reads targets on all of their nodes concurrently. ask completes the request to a node.
func (s *Site) Snapshots(ctx context.Context, targets map[string][]observe.Target, ask func(node string, r *observe.SnapshotsRequest)) (map[string][]observe.Snapshot, error) {
	var mu sync.Mutex
	out := map[string][]observe.Snapshot{}
	group, ctx := errgroup.WithContext(ctx)
	for node, of := range targets {
		group.Go(func() error {
			observer := s.Observers[node]
			if observer.HTTPClient == nil {
				return fmt.Errorf("node %s: %w", node, ErrUnobserved)
			}
			r := observe.SnapshotsRequest{Targets: of}
			ask(node, &r)
			shots, err := observer.Snapshots(ctx, r)
			if err != nil {
				return fmt.Errorf("observe node %s: %w", node, err)
			}
			mu.Lock()
			defer mu.Unlock()
			out[node] = shots
			return nil
		})
	}
	return out, group.Wait()
}

// Snapshot is like Snapshots for a single instant. The request is that to each node, without its
// targets.
func (s *Site) Snapshot(ctx context.Context, targets map[string][]observe.Target, request observe.SnapshotsRequest) (map[string]observe.Snapshot, error) {
	all, err := s.Snapshots(ctx, targets, func(_ string, r *observe.SnapshotsRequest) {
		of := r.Targets
		*r = request
		r.Targets = of
	})
	out := map[string]observe.Snapshot{}
	for node, shots := range all {
		out[node] = shots[0]
	}
	return out, err
}

// Account puts the targets' use between two snapshots of their nodes into a trial's record: CPU and
// memory by part, CPU and pressure of the machine of one node, and what else ran if no other machine
// was involved. It returns a failed check for what was not read twice.
func (s *Site) Account(out *record.Trial, targets map[string][]observe.Target, read map[string]Shots, part func(target string) string, machine string, beside *observe.Host) (unread []record.Check) {
	out.CPU, out.Memory = map[string]record.CPU{}, map[string]record.Memory{}
	lacking := func(part string, err error) {
		unread = append(unread, record.Check{Name: "cpu-" + part, Detail: err.Error()})
	}
	var nodes []Shots
	seconds := 0.0
	for _, node := range slices.Sorted(maps.Keys(targets)) {
		shots := read[node]
		nodes = append(nodes, shots)
		for _, target := range targets[node] {
			of, sample := part(target.Name), shots.After.Targets[target.Name]
			cpu, err := sample.Since(shots.Before.Targets[target.Name])
			if err != nil {
				lacking(of, err)
				continue
			}
			out.CPU[of] = out.CPU[of].Plus(cpu)
			if sample.Memory != nil {
				out.Memory[of] = out.Memory[of].Plus(sample.Memory.Record())
			}
		}
		if node != machine {
			continue
		}
		cpu, pressure, err := shots.After.Machine.Since(shots.Before.Machine)
		if err != nil {
			lacking(record.PartMachine, err)
			continue
		}
		out.CPU[record.PartMachine], out.Pressure = cpu, &pressure
		seconds = shots.After.Machine.Elapsed(shots.Before.Machine).Seconds()
	}
	if len(nodes) == len(s.Observers) {
		out.Others = Unattributed(out.CPU, seconds, nodes, beside)
	}
	return unread
}
