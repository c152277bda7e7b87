// Command worker measures the workload under test and the timelines that act on
// it, against their targets, on this machine:
//
//	rate      requests a second of one worker with no behaviour on one core over
//	          HTTP/1.1, beside nginx's if it is installed; the load comes from
//	          the other core
//	graph     a graph of 100 workers in the local lab: seconds from their
//	          creation until all are ready
//	meshed    the same with sidecars; no target
//	steps     a timeline of a hundred steps under load, with sidecars: how late
//	          each begins, and how far the windows' edges are from what they
//	          stand for
//
// All but the first take the lab that runs, or start one with bin/meshtrial in
// the working directory and end it afterwards; that needs root.
package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"time"

	"github.com/meshtrial/meshtrial/bench/internal/labs"
	"github.com/meshtrial/meshtrial/bench/internal/table"
)

// Targets.
const (
	rateTarget  = 20_000 // requests a second on one core
	startTarget = 20     // seconds for 100 workers
	stepTarget  = 5      // ms after its time
	cutTarget   = 10     // ms
)

// options are what the parts are run with.
type options struct {
	rounds               int
	each                 time.Duration
	serverCPU, clientCPU int
	workers              int
	dir                  string // for our files; removed at the end
	stderr               io.Writer
}

func main() { os.Exit(table.Main("bench worker", run)) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	flags := flag.NewFlagSet("worker", flag.ContinueOnError)
	flags.SetOutput(stderr)
	o := options{stderr: stderr}
	flags.IntVar(&o.rounds, "rounds", 3, "rounds of each part")
	flags.DurationVar(&o.each, "each", 3*time.Second, "length of each run of the part rate")
	flags.IntVar(&o.serverCPU, "server-cpu", 0, "core of the servers in the part rate")
	flags.IntVar(&o.clientCPU, "client-cpu", 1, "core of the client in the part rate")
	flags.IntVar(&o.workers, "workers", 100, "workers in the graph")
	only := flags.String("only", "rate,graph,steps", "which parts to run: rate, graph, meshed, steps")
	jsonFile := flags.String("json", "", "also write the results to this file")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if o.dir, err = os.MkdirTemp("", "meshtrial-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(o.dir)) }()
	var lab *labs.Lab
	defer func() {
		if lab != nil {
			err = errors.Join(err, lab.End(ctx))
		}
	}()
	in := func(name string, do func(context.Context, *options) ([]table.Row, error)) table.Part {
		return table.Part{Name: name, Run: func(ctx context.Context) ([]table.Row, error) {
			if lab == nil {
				var err error
				if lab, err = labs.Take(ctx); err != nil {
					return nil, err
				}
			}
			return do(ctx, &o)
		}}
	}
	rows, err := table.Run(ctx, *only, []table.Part{
		{Name: "rate", Run: func(ctx context.Context) ([]table.Row, error) { return rate(ctx, &o) }},
		in("graph", graphStart), in("meshed", meshedStart), in("steps", steps),
	})
	return table.Report(stdout, "worker and timelines", rows, err, *jsonFile, struct {
		Schema  int         `json:"schema"`
		Results []table.Row `json:"results"`
	}{1, rows})
}
