package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/meshtrial/meshtrial/bench/internal/child"
	"github.com/meshtrial/meshtrial/drive/load"
	"github.com/meshtrial/meshtrial/drive/worker"
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
			outs[i], err = generate(ctx, o.self, shares[i])
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return outcome{}, err
	}
	sum := outs[0]
	for _, one := range outs[1:] {
		sum.Requests, sum.CPU = sum.Requests+one.Requests, sum.CPU+one.CPU
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
	var at [2]time.Time
	var cpu [2]time.Duration
	for i, edge := range []int{warm, last} {
		select {
		case <-time.After(time.Until(running.Epoch.Add(time.Duration(float64(edge) * interval * float64(time.Second))))):
		case <-ctx.Done():
			return ctx.Err()
		}
		var r unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
			return err
		}
		at[i], cpu[i] = time.Now(), time.Duration(r.Utime.Nano()+r.Stime.Nano())
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
	lag := w.Record(spec.Rate).Lag
	return json.NewEncoder(out).Encode(outcome{Requests: w.Within.Answered, Seconds: at[1].Sub(at[0]).Seconds(), CPU: (cpu[1] - cpu[0]).Seconds(),
		LagP50: lag.At(0.5), LagP99: lag.At(0.99)})
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
