package trial

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/drive/load"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/kinds/dataplane/verdict"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/stat"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/study/protocol"
)

// costs turns the snapshots at the edges of the window into the trial's CPU, memory, pressure and
// pod counters.
func (t *trialRun) costs(out *record.Trial, w observed) {
	out.Connections, out.Probed = map[string]record.Connections{}, map[string]map[string]uint64{}
	t.seen.Unread = append(t.seen.Unread, t.d.Account(out, t.targets, w.sampled, partOf, t.server.pod.Node, w.host)...)
	for node, targets := range t.targets {
		t.podCounts(out, targets, w.sampled[node])
	}
}

// podCounts adds a node's pod counters other than CPU, memory and threads.
func (t *trialRun) podCounts(out *record.Trial, targets []observe.Target, e site.Shots) {
	parts := dataplane.ProbedParts()
	for _, target := range targets {
		before, after, part := e.Before.Targets[target.Name], e.After.Targets[target.Name], partOf(target.Name)
		if rise := probed(before.Probed, after.Probed); len(rise) > 0 && slices.Contains(parts, part) {
			for name, n := range out.Probed[part] {
				rise[name] += n
			}
			out.Probed[part] = rise
		}
		if was, now := before.Net, after.Net; was != nil && now != nil && slices.Contains(record.ConnectedParts, part) {
			out.Connections[part] = out.Connections[part].Plus(record.Connections{
				Established:   int64(now.Established),
				Opened:        int64(now.ActiveOpens) - int64(was.ActiveOpens),
				Accepted:      int64(now.PassiveOpen) - int64(was.PassiveOpen),
				Retransmitted: int64(now.Retransmits) - int64(was.Retransmits),
			})
		}
	}
}

// probed returns the increase of counters. It omits counters that fell, or were not read twice.
func probed(before, after map[string]uint64) map[string]uint64 {
	out := map[string]uint64{}
	for name, now := range after {
		if was, ok := before[name]; ok && now >= was {
			out[name] = now - was
		}
	}
	return out
}

// partOf returns the part of a target: istiod's pods and generators are numbered.
func partOf(target string) string {
	if strings.HasPrefix(target, record.PartControl) {
		return record.PartControl
	}
	return record.PartOfHand(target)
}

// evidence reconciles what was counted with what was sent, over the whole trial: warm-up, window
// and drain.
func (t *trialRun) evidence(out *record.Trial, result *load.Result, before, after counters) mesh.Evidence {
	total := result.Total()
	speaks := protocol.Of(t.cell[study.FactorProtocol])
	answered := total.Completed + total.Failed[load.FailStatus]
	e := mesh.Evidence{
		Cell: t.cell,
		Endpoint: mesh.Endpoint{
			Service: t.server.Name, Namespace: t.server.Namespace,
			Port: endpointOf(t.cell, t.o.Study.Load).Port, Opaque: t.o.Study.Load.TLS || !speaks.Headers, Streams: speaks.Streams,
		},
		Requests:    answered,
		Unknown:     total.Scheduled - answered,
		SentS:       float64(total.DurationNS) / 1e9,
		Connections: result.Opened + result.Probes + total.Connects,
		Probes:      result.Probes,
		Way:         t.way, Proxies: map[string]*mesh.Passed{}, Wire: &mesh.Wire{Sent: total.BytesSent, Read: total.BytesRead, Bodies: !t.spec.CountsWire()},
		Extensions: t.server.extended, FiltersVary: dataplane.HasParts(t.o.Study),
	}
	if t.spec.KeepAlive && t.spec.MaxConnections == 0 {
		e.Remade = total.Connects
	}
	if o := t.server.Outside; o != nil {
		e.Endpoint.Host, e.Endpoint.Client, e.Endpoint.Unknown = o.Host, t.client.workload, o.Destination == study.DestinationOutside
	}
	out.Counters = map[string]map[string]float64{}
	note := func(part string, values map[string]float64, err error) map[string]float64 {
		if err != nil {
			t.unread(verdict.UnreadCounters+part, err)
			return nil
		}
		out.Counters[part] = values
		return values
	}
	worker, err := after.worker.Since(before.worker)
	e.Worker = note(record.PartWorker, worker, err)
	for name, now := range after.proxies {
		if own, err := now.Since(before.proxies[name]); err == nil {
			t.workerConnections(out, name, own)
		}
		part := partOf(name)
		if name != part {
			continue // of another generator
		}
		of, values, err := risen(part, before, after)
		e.Proxies[part] = &mesh.Passed{Rise: note(part, values, err), Total: now.Values(), State: t.proxies[part].State, Of: of}
		t.withoutWorkers(out.Counters[part])
		t.carriedConnections(out, part, out.Counters[part], e.Endpoint)
	}
	t.besideEvidence(&e, before, after)
	return e
}

// besideEvidence adds the counters of proxies that are not on the way. If one did not answer twice,
// or was replaced in between, requests may have passed it unseen if pods on its node use it; no
// request reaches the proxy of another node.
func (t *trialRun) besideEvidence(e *mesh.Evidence, before, after counters) {
	passed := t.passedNodes()
	for _, node := range slices.Sorted(maps.Keys(t.beside)) {
		was, read := before.beside[node]
		now, again := after.beside[node]
		rise, err := now.Since(was)
		if !read || !again {
			err = errors.New("its proxy did not answer")
		} else if err == nil {
			err = t.anew[node]
		}
		switch {
		case err == nil:
			if e.Beside == nil {
				e.Beside = map[string]*mesh.Passed{}
			}
			e.Beside[node] = &mesh.Passed{Rise: rise, State: t.beside[node].State}
		case passed[node]:
			t.unread(verdict.UnreadCounters+record.PartIdleNode, fmt.Errorf("node %s: %w", node, err))
		}
	}
}

// carrier is a mesh whose node proxies report the connections that they carried.
type carrier interface {
	Carried(rise map[string]float64, to mesh.Endpoint) record.Connections
}

func (t *trialRun) carriedConnections(out *record.Trial, part string, rise map[string]float64, to mesh.Endpoint) {
	m, ok := t.o.Mesh.(carrier)
	if p, _ := record.ProxyOf(part); !ok || rise == nil || p.Place != record.PlaceNode {
		return
	}
	if out.Connections == nil {
		out.Connections = map[string]record.Connections{}
	}
	out.Connections[part] = m.Carried(rise, to)
}

// unread records counters that could not be read: the trial fails the check.
func (t *trialRun) unread(check string, err error) {
	t.seen.Unread = append(t.seen.Unread, record.Check{Name: check, Detail: err.Error()})
}

// unmeasured records what is missing without affecting what the trial measured.
func (t *trialRun) unmeasured(format string, args ...any) {
	t.seen.Unmeasured = append(t.seen.Unmeasured, fmt.Sprintf(format, args...))
}

// risen returns the increase of the statistics of a part's proxy, or their sum over all generators;
// of is the number of generators, 0 for one.
func risen(part string, before, after counters) (of int, sum map[string]float64, err error) {
	for name, now := range after.proxies {
		if partOf(name) != part {
			continue
		}
		values, failed := now.Since(before.proxies[name])
		if failed != nil {
			return 0, nil, failed
		}
		if of++; of == 1 {
			sum = values
			continue
		}
		for stat, v := range values {
			sum[stat] += v
		}
	}
	if of == 1 {
		of = 0
	}
	return of, sum, nil
}

// edges compares the times of the counter readings with the start and end of the window.
func (t *trialRun) edges(w record.Window, sampled map[string]site.Shots) []verdict.Edge {
	end := w.Start.Add(time.Duration(w.Seconds * float64(time.Second)))
	var out []verdict.Edge
	for _, node := range slices.Sorted(maps.Keys(sampled)) {
		e := sampled[node]
		out = append(out, verdict.Edge{Node: node,
			Before: time.Unix(0, e.Before.EndNS).Sub(w.Start.Add(t.skew[node])),
			After:  time.Unix(0, e.After.EndNS).Sub(end.Add(t.skew[node]))})
	}
	return out
}

// driftOf compares the halves of a window; nil if it has too few intervals. CPU counters are not
// read during a window, so it relies on latency alone.
func driftOf(intervals []load.Interval) *record.Drift {
	medians := make([]float64, len(intervals))
	for i := range intervals {
		medians[i] = intervals[i].MedianNS() / 1e3
	}
	d, ok := stat.DriftOf(medians)
	if !ok {
		return nil
	}
	return &record.Drift{FirstUS: d.First, SecondUS: d.Second, ErrorUS: d.SE, Intervals: d.N}
}

// idleMemory reads each part's memory before the trial's first request, for studies that price
// memory. It returns nil for others, and with kubelets, whose samples may date from the previous
// trial. The reading walks page tables, so it precedes the start of the generator.
func (t *trialRun) idleMemory(ctx context.Context) (map[string]int64, error) {
	if t.d.Kubelets || dataplane.Of(t.o.Study).Bill == nil || !t.o.Study.Measured(study.MeasureMemory) {
		return nil, nil
	}
	out := map[string]int64{}
	shots, err := t.d.Snapshot(ctx, t.targets, observe.SnapshotsRequest{Memory: true})
	if err != nil {
		return nil, fmt.Errorf("memory before the trial: %w", err)
	}
	for node, targets := range t.targets {
		for _, target := range targets {
			if m := shots[node].Targets[target.Name].Memory; m != nil {
				out[partOf(target.Name)] += m.Record().PSSBytes
			}
		}
	}
	return out, nil
}
