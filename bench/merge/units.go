package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/bench/internal/child"
	"github.com/meshtrial/meshtrial/bench/internal/table"
	"github.com/meshtrial/meshtrial/drive/load"
	"github.com/meshtrial/meshtrial/drive/load/control"
	"github.com/meshtrial/meshtrial/drive/population"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/site"
)

// units are what one generator, node or simulated proxy more costs.
func units(ctx context.Context, streams, rounds int) ([]table.Row, error) {
	rows, err := lines(ctx, streams, rounds)
	if err != nil {
		return nil, err
	}
	for _, of := range []func() ([]table.Row, error){func() ([]table.Row, error) { return scheduled(streams, rounds) }, stored, objects} {
		more, err := of()
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	return rows, nil
}

// lines are the port-forwards of a run's process, one to each pod: what it takes to keep them,
// and to ask all pods something at once.
func lines(ctx context.Context, streams, rounds int) (rows []table.Row, err error) {
	p, err := child.Start(ctx, podsMode)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	memory := func() float64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapInuse + m.StackInuse)
	}
	dialer := lab.NewDialer(&rest.Config{Host: "http://" + p.Address})
	defer func() { err = errors.Join(err, dialer.Close()) }()
	before, goroutines := memory(), runtime.NumGoroutine()
	clients := make([]*control.Client, streams)
	for i := range clients {
		clients[i] = control.NewClient(lab.InPod, dialer.Role("bench", fmt.Sprintf("generator-%d", i), site.LoadControlPort))
	}
	ask := func(limit int) (float64, error) {
		began := used()
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(limit)
		for _, c := range clients {
			group.Go(func() error {
				_, err := c.Version(ctx)
				return err
			})
		}
		err := group.Wait()
		return (used() - began) / float64(streams) * 1e6, err
	}
	made, err := ask(32)
	if err != nil {
		return nil, fmt.Errorf("reach the pods: %w", err)
	}
	each, running := (memory()-before)/float64(streams)/1e3, float64(runtime.NumGoroutine()-goroutines)/float64(streams)
	var asked []float64
	for range rounds {
		cost, err := ask(-1)
		if err != nil {
			return nil, fmt.Errorf("ask the pods: %w", err)
		}
		asked = append(asked, cost)
	}
	var fetched []float64
	for i := range rounds {
		began := used()
		if err := fetch(ctx, dialer.Client("bench", fmt.Sprintf("generator-%d", i%streams), site.LoadControlPort)); err != nil {
			return nil, fmt.Errorf("fetch a stream: %w", err)
		}
		fetched = append(fetched, (used()-began)/(streamLength/1e6)*1e6)
	}
	return []table.Row{
		table.Of("a pod's line: memory of the run's process", "KB", each),
		table.Of("a pod's line: goroutines", "", running),
		table.Of("a pod's line: to make it", "us CPU", made),
		table.Of("a request to a pod, of all at once", "us CPU", asked...),
		table.Of("a megabyte of a stream from a pod", "us CPU", fetched...),
	}, nil
}

// fetch reads what a pod has recorded.
func fetch(ctx context.Context, pod *http.Client) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, lab.InPod+streamPath, nil)
	if err != nil {
		return err
	}
	answer, err := pod.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	n, err := io.Copy(io.Discard, answer.Body)
	if err == nil && (answer.StatusCode != http.StatusOK || n != streamLength) {
		err = fmt.Errorf("status %d, %d bytes of %d", answer.StatusCode, n, streamLength)
	}
	return err
}

// scheduled is what a generator computes for each request of the whole load, whoever sends it.
func scheduled(streams, rounds int) ([]table.Row, error) {
	const seconds = 2
	spec := whole("http://127.0.0.1:1/", streams)
	shares, err := spec.Split(streams)
	if err != nil {
		return nil, err
	}
	var costs []float64
	for range rounds {
		began := used()
		shares[0].Planned(0, seconds*1e9)
		costs = append(costs, (used()-began)/float64(seconds*usual*streams)*1e9)
	}
	return []table.Row{table.Of("the schedule: a request of the whole load, in each generator", "ns CPU", costs...)}, nil
}

// stored is what a generator more adds to a trial's record.
func stored() ([]table.Row, error) {
	clock := record.Clock{AheadUS: -12.345, ErrorUS: 23.456}
	hand, err := json.Marshal(record.Hand{Pod: "client-plain-7d9c6bb5f4-x2x9z", Node: "node-123.example", Connections: connectionsEach, Scheduled: 60_012, Completed: 60_012,
		CPU: record.CPU{UserS: 1.234567, SystemS: 2.345678}, Before: clock, After: clock})
	if err != nil {
		return nil, err
	}
	poll, err := json.Marshal(control.Status{Run: "0123456789abcdef", StartUnixNS: 1_790_000_000_123_456_789, Intervals: []load.Summary{{Index: 123, StartNS: 30_750_000_000, DurationNS: 250_000_000, Scheduled: 251, Completed: 251,
		P50NS: 312_345, P99NS: 912_345}}})
	if err != nil {
		return nil, err
	}
	var log bytes.Buffer
	if err := drawn(1, usual).WriteLog(&log, 0, intervals); err != nil {
		return nil, err
	}
	return []table.Row{
		table.Of("a generator in a trial's record", "bytes", float64(len(hand))),
		table.Of("a generator's answer about an interval", "bytes", float64(len(poll))),
		table.Of("an interval of all in the run directory", "bytes", float64(log.Len())/intervals),
	}, nil
}

// proxies and pods of each Service, of the population that is counted.
const (
	proxies, podsOfService, ofNamespace = 100_000, 100, 10
)

// objects are those that a run makes, in number and as JSON: of simulated proxies for all of
// them, of generators and nodes for one.
func objects() ([]table.Row, error) {
	sizes := population.Sizes{Proxies: proxies, Services: proxies / podsOfService, EndpointsPerService: podsOfService, Namespaces: proxies / podsOfService / ofNamespace}
	all, err := sizes.Objects(nil)
	if err != nil {
		return nil, err
	}
	kinds, length := map[string]int{}, 0
	for _, o := range all {
		text, err := json.Marshal(o.Object)
		if err != nil {
			return nil, err
		}
		kinds[o.GetKind()]++
		length += len(text)
	}
	var rows []table.Row
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		rows = append(rows, table.Of(fmt.Sprintf("%d proxies: %s", proxies, kind), "objects", float64(kinds[kind])))
	}
	// What the cluster's controllers make of these.
	rows = append(rows,
		table.Of(fmt.Sprintf("%d proxies: Pod", proxies), "objects", float64(sizes.Services*sizes.EndpointsPerService)),
		table.Of(fmt.Sprintf("%d proxies: ReplicaSet", proxies), "objects", float64(kinds["Deployment"])),
		table.Of(fmt.Sprintf("%d proxies: EndpointSlice", proxies), "objects", float64(sizes.Services)*math.Ceil(float64(podsOfService)/endpointsPerSlice)),
		table.Of(fmt.Sprintf("%d proxies: what the run writes", proxies), "MB", float64(length)/1e6))
	images := lab.Images{Meshtrial: "registry.example/meshtrial:1"}
	for _, of := range []struct {
		name string
		pod  corev1.PodTemplateSpec
	}{
		{"a generator's pod, as it is asked for", site.LoadPod(mesh.Workload{Name: "client-plain", ControlPort: site.LoadControlPort}, images, "20261126-100000-abcd")},
		{"a node's observer, as it is asked for", site.ObserveSet("meshtrial-x", images, "20261126-100000-abcd").Spec.Template},
	} {
		text, err := json.Marshal(of.pod)
		if err != nil {
			return nil, err
		}
		rows = append(rows, table.Of(of.name, "bytes", float64(len(text))))
	}
	return rows, nil
}

// endpointsPerSlice is what a controller puts into one EndpointSlice
// (--max-endpoints-per-slice).
const endpointsPerSlice = 100
