package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/meshtrial/meshtrial/bench/internal/child"
	"github.com/meshtrial/meshtrial/drive/load"
	"github.com/meshtrial/meshtrial/drive/worker"
	"github.com/meshtrial/meshtrial/observe/procfs"
)

const (
	// interval is the interval of the records, in seconds; warm is the number of them that a
	// generator runs before the window.
	interval, warm = 0.1, 5
	// ahead is how long before the start a generator receives its orders.
	ahead = 1500 * time.Millisecond
	// enough is the share of its requests that a generator must complete to count as keeping
	// pace.
	enough = 0.99
)

// outcome is what generators did in the window.
type outcome struct {
	Requests int64   `json:"requests"`
	Seconds  float64 `json:"seconds"`
	CPU      float64 `json:"cpu_s"` // of the processes
	Turns    uint64  `json:"turns"` // how often one of their threads got a CPU
	LagP50   float64 `json:"lag_p50_us"`
	LagP99   float64 `json:"lag_p99_us"`
}

// cost returns CPU microseconds per request.
func (o outcome) cost() float64 { return o.CPU * 1e6 / float64(o.Requests) }

// cores returns how much of a CPU they used.
func (o outcome) cores() float64 { return o.CPU / o.Seconds }

// send has the generators of a contender send together, and sums up the results. The lag of
// several is that of the worst.
func (o *options) send(ctx context.Context, url string, c contender) (outcome, error) {
	spec := load.DefaultSpec(url)
	spec.Connections, spec.Rate, spec.IntervalS, spec.PayloadBytes = c.connections, c.rate, interval, 1<<10
	spec.DurationS = warm*interval + o.each.Seconds() + interval
	spec.StartAtUnixNS = time.Now().Add(ahead).UnixNano()
	shares, err := spec.Split(c.generators)
	if err != nil {
		return outcome{}, err
	}
	outs := make([]outcome, len(shares))
	group, ctx := errgroup.WithContext(ctx)
	for i := range shares {
		group.Go(func() (err error) {
			outs[i], err = generate(ctx, c.program, shares[i])
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return outcome{}, err
	}
	sum := outs[0]
	for _, one := range outs[1:] {
		sum.Requests, sum.CPU, sum.Turns = sum.Requests+one.Requests, sum.CPU+one.CPU, sum.Turns+one.Turns
		sum.LagP50, sum.LagP99 = max(sum.LagP50, one.LagP50), max(sum.LagP99, one.LagP99)
	}
	if sum.Requests == 0 && c.rate > idleRate {
		return outcome{}, errors.New("no request was completed in the window")
	}
	return sum, nil
}

// generate has a separate process send a share.
func generate(ctx context.Context, program string, spec load.Spec) (outcome, error) {
	text, err := child.Generate(ctx, program, spec)
	if err != nil {
		return outcome{}, err
	}
	var out outcome
	return out, json.Unmarshal(text, &out)
}

// serveGenerator executes a specification, and writes its cost in the window.
func serveGenerator(ctx context.Context, in io.Reader, out io.Writer) error {
	spec, err := child.ReadSpec(in)
	if err != nil {
		return err
	}
	running, err := load.Start(ctx, spec, nil)
	if err != nil {
		return err
	}
	last := int(spec.DurationS/interval+0.5) - 1 // the window ends where this interval begins
	var used [2]usage
	for i, at := range []int{warm, last} {
		select {
		case <-time.After(time.Until(running.Epoch.Add(time.Duration(float64(at) * interval * float64(time.Second))))):
		case <-ctx.Done():
			return ctx.Err()
		}
		if used[i], err = measure(); err != nil {
			return err
		}
	}
	result, err := running.Result(ctx)
	if err != nil {
		return err
	}
	w, err := result.Window(warm, last)
	if err != nil {
		return err
	}
	if float64(w.Completed) < enough*float64(w.Scheduled) {
		return fmt.Errorf("a generator completed %d of %d requests: %v; is the machine busy with other things?", w.Completed, w.Scheduled, w.Failed)
	}
	done := used[1].since(used[0])
	lag := w.Record(spec.Rate).Lag
	done.Requests, done.LagP50, done.LagP99 = w.Within.Answered, lag.At(0.5), lag.At(0.99)
	return json.NewEncoder(out).Encode(done)
}

// usage is what the process has used up to a time.
type usage struct {
	at    time.Time
	cpu   time.Duration
	turns uint64
}

func measure() (usage, error) {
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
		return usage{}, err
	}
	u := usage{at: time.Now(), cpu: time.Duration(r.Utime.Nano() + r.Stime.Nano())}
	paths, err := filepath.Glob("/proc/self/task/[0-9]*/schedstat")
	if err != nil {
		return u, err
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return u, err // Go's threads do not end
		}
		s, err := procfs.ParseSchedstat(data)
		if err != nil {
			return u, err
		}
		u.turns += s.Slices
	}
	return u, nil
}

// since returns the use since before.
func (u usage) since(before usage) outcome {
	return outcome{Seconds: u.at.Sub(before.at).Seconds(), CPU: (u.cpu - before.cpu).Seconds(), Turns: u.turns - before.turns}
}

// workerMode is the argument with which this program runs the worker.
const workerMode = "worker"

// serveWorker prints the worker's addresses, by [spoken], and serves until in ends.
func serveWorker(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := child.While(ctx, in)
	defer cancel()
	names, listen := spoken(), map[string]string{}
	for _, name := range names {
		listen[name] = "127.0.0.1:0"
	}
	server, err := worker.New(worker.Options{Listen: listen})
	if err != nil {
		return err
	}
	for i, name := range names {
		names[i] = server.Addresses()[name]
	}
	fmt.Fprintln(out, strings.Join(names, ","))
	return server.Serve(ctx)
}
