package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/bench/internal/child"
	"github.com/meshtrial/meshtrial/bench/internal/table"
	"github.com/meshtrial/meshtrial/drive/load/control"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/run/site"
)

// units measures the cost of one additional generator or pod.
func units(ctx context.Context, streams, rounds int) ([]table.Row, error) {
	rows, err := lines(ctx, streams, rounds)
	if err != nil {
		return nil, err
	}
	more, err := scheduled(streams, rounds)
	return append(rows, more...), err
}

// lines measures the port-forwards of a run's process, one to each pod: the cost of keeping
// them, and of asking all pods something at once.
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

// fetch reads the record of a pod.
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

// scheduled measures the cost of computing the schedule, per request of the whole load. Each
// generator computes all of it, including what others send.
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
