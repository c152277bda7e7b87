package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sync/errgroup"

	"github.com/meshtrial/meshtrial/bench/internal/child"
	"github.com/meshtrial/meshtrial/bench/internal/table"
	"github.com/meshtrial/meshtrial/drive/load"
	"github.com/meshtrial/meshtrial/drive/worker"
	"github.com/meshtrial/meshtrial/record/rate"
	"github.com/meshtrial/meshtrial/study/protocol"
)

const (
	// generators is the number of real generators that record, each another share; beside is
	// how many of them do so at a time, since they must keep pace.
	generators, beside = 8, 2
	// connectionsEach is the number of connections of each generator.
	connectionsEach = 4
	// enough is the share of its requests that a generator must complete for its record to
	// resemble that of one that keeps pace.
	enough = 0.99
)

// whole returns the load of n generators together, at the usual rate each.
func whole(url string, n int) load.Spec {
	spec := load.DefaultSpec(url)
	spec.IntervalS, spec.DurationS = interval, intervals*interval
	spec.Connections, spec.Rate = n*connectionsEach, rate.Rate(n*usual)
	return spec
}

// recorded merges the records of real generators, each of which sent its share of the load
// of all, repeated to the number of streams.
func recorded(ctx context.Context, streams, rounds int) ([]table.Row, error) {
	texts, err := send(ctx, streams)
	if err != nil {
		return nil, fmt.Errorf("record streams: %w", err)
	}
	return merge(ctx, fmt.Sprintf("recorded at %d rps each", usual), texts, streams, rounds, true)
}

// send has some of the generators send their shares to a worker on this machine, and returns
// their streams of records.
func send(ctx context.Context, streams int) ([][]byte, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	server, err := worker.New(worker.Options{Listen: map[string]string{protocol.HTTP1: "127.0.0.1:0"}})
	if err != nil {
		return nil, err
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx) }()
	texts := make([][]byte, min(generators, streams))
	spec := whole("http://"+server.Addresses()[protocol.HTTP1]+"/", streams)
	shares, err := spec.Split(streams)
	var group errgroup.Group
	group.SetLimit(beside)
	for i := range texts {
		if err != nil {
			break
		}
		group.Go(func() (err error) {
			texts[i], err = generate(ctx, shares[i*streams/len(texts)])
			return err
		})
	}
	err = errors.Join(err, group.Wait())
	cancel()
	return texts, errors.Join(err, <-served)
}

// serveGenerator executes a specification, and writes its record.
func serveGenerator(ctx context.Context, in io.Reader, out io.Writer) error {
	spec, err := child.ReadSpec(in)
	if err != nil {
		return err
	}
	result, err := load.Run(ctx, spec, nil)
	if err != nil {
		return err
	}
	if w := result.Total(); float64(w.Completed) < enough*float64(w.Scheduled) || w.Scheduled == 0 || result.Interrupted {
		return fmt.Errorf("a generator completed %d of %d requests: %v", w.Completed, w.Scheduled, w.Failed)
	}
	return result.WriteStream(out)
}

// generate has a generator send its share, and returns its stream.
func generate(ctx context.Context, spec load.Spec) ([]byte, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return child.Generate(ctx, self, spec)
}
