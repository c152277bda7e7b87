// Command worker measures the workload under test, and the timelines that act
// on it, against their targets, on this machine:
//
//	rate      requests per second of one worker with no behaviour on one core over
//	          HTTP/1.1, compared with nginx's if it is installed; the load comes
//	          from the other core
//	graph     a graph of 100 workers in the local lab: seconds from their
//	          creation until all are ready
//	steps     a timeline of a hundred steps under load, with sidecars: how late
//	          each begins, and how far the windows' edges are from what they
//	          represent
//
// All but the first use the running lab, or start one with bin/meshtrial in the
// working directory and end it afterwards, which requires root.
package main

import (
	"context"
	"errors"
	"flag"
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

// options are the options of the parts.
type options struct {
	rounds               int
	each                 time.Duration
	serverCPU, clientCPU int
	workers              int
	dir                  string    // for our files; removed at the end
	lab                  *labs.Lab // nil until a part needs it
}

func main() {
	var o options
	table.Program{
		Name: "worker",
		Flags: func(f *flag.FlagSet) {
			f.IntVar(&o.rounds, "rounds", 3, "rounds of each part")
			f.DurationVar(&o.each, "each", 3*time.Second, "length of each run of the part rate")
			f.IntVar(&o.serverCPU, "server-cpu", 0, "core of the servers in the part rate")
			f.IntVar(&o.clientCPU, "client-cpu", 1, "core of the client in the part rate")
			f.IntVar(&o.workers, "workers", 100, "workers in the graph")
		},
		Setup: func(ctx context.Context) (func() error, error) {
			var err error
			o.dir, err = os.MkdirTemp("", "meshtrial-bench-")
			return func() error {
				if o.lab == nil {
					return os.RemoveAll(o.dir)
				}
				return errors.Join(o.lab.End(ctx), os.RemoveAll(o.dir))
			}, err
		},
		Title: func() string { return "worker and timelines" },
		Parts: []table.Part{{Name: "rate", Run: o.rate}, {Name: "graph", Run: o.inLab(o.graph)}, {Name: "steps", Run: o.inLab(o.steps)}},
	}.Main()
}

// inLab returns a part that needs a lab.
func (o *options) inLab(part func(context.Context) ([]table.Row, error)) func(context.Context) ([]table.Row, error) {
	return func(ctx context.Context) (_ []table.Row, err error) {
		if o.lab == nil {
			if o.lab, err = labs.Take(ctx); err != nil {
				return nil, err
			}
		}
		return part(ctx)
	}
}
