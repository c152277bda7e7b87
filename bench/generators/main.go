// Command generators measures what it costs that several load generators send what one could:
// the CPU time of a request that one of them sends alone, and that four send together, each a
// process of its own as in a pod. They send to a worker by this machine's loopback.
//
// A generator sleeps until a request is due. What it finds to do when it wakes, it does at once,
// and the rarer its requests are, the more of them have a sleep of their own. So one generator
// is also measured at the rate that each of the four has, and one that has next to nothing to
// send: the rest of the difference is neither of these.
//
// In every round all run in turn, in an order that rotates, and ratios are taken within the
// round. With -before it does the same with another build of this program.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/meshtrial/meshtrial/bench/internal/child"
	"github.com/meshtrial/meshtrial/bench/internal/table"
	"github.com/meshtrial/meshtrial/record/rate"
)

const (
	// most is what a request of several generators may cost, of one's of the same rate each.
	most = 1.1
	// together is how many send what one could.
	together = 4
	// idleRate is that of a generator with next to nothing to send, in requests per second.
	idleRate = 1
)

// options are what the bench is run with.
type options struct {
	rounds      int
	each        time.Duration
	rps         float64
	connections int
	before      string
	log         io.Writer
}

func main() { os.Exit(table.Main("bench generators", run)) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 1 {
		switch args[0] {
		case workerMode:
			return serveWorker(ctx, os.Stdin, stdout)
		case child.Generator:
			return serveGenerator(ctx, os.Stdin, stdout)
		}
	}
	flags := flag.NewFlagSet("generators", flag.ContinueOnError)
	flags.SetOutput(stderr)
	o := options{log: stderr}
	flags.IntVar(&o.rounds, "rounds", 6, "rounds of paired runs")
	flags.DurationVar(&o.each, "each", 3*time.Second, "length of each window")
	flags.Float64Var(&o.rps, "rate", 5000, "requests per second of all generators together")
	flags.IntVar(&o.connections, "connections", 16, "connections of all generators together")
	flags.StringVar(&o.before, "before", "", "another build of this program, to be measured in the same rounds")
	jsonFile := flags.String("json", "", "also write the results to this file")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if o.rounds < 1 || o.each < time.Second || o.rps < together || o.connections < together {
		return errors.New("-rounds: at least 1; -each: at least 1s; -rate and -connections: at least 4")
	}
	rows, err := compare(ctx, o)
	title := fmt.Sprintf("one generator and %d, %g requests/s, %d rounds of %v", together, o.rps, o.rounds, o.each)
	return table.Report(stdout, title, rows, err, *jsonFile, struct {
		Schema  int         `json:"schema"`
		Results []table.Row `json:"results"`
	}{1, rows})
}

// contender is a number of generators that run together, of a build of this program.
type contender struct {
	program     string
	generators  int
	rate        rate.Rate // of all
	connections int       // of all
}

// contenders are those of a build: one, the many, one of theirs, and one without requests.
func (o options) contenders(program string) []contender {
	all, part := rate.Rate(o.rps), rate.Rate(o.rps/together)
	return []contender{
		{program, 1, all, o.connections}, {program, together, all, o.connections},
		{program, 1, part, o.connections / together}, {program, 1, idleRate, o.connections / together},
	}
}

// compare runs all contenders in every round.
func compare(ctx context.Context, o options) (rows []table.Row, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	worker, err := child.Start(ctx, workerMode)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, worker.Close()) }()
	names, all := []string{""}, o.contenders(self)
	of := len(all)
	if o.before != "" {
		names, all = append(names, "before: "), append(all, o.contenders(o.before)...)
	}
	got := make([][]outcome, len(all))
	for round := range o.rounds {
		fmt.Fprintf(o.log, "round %d of %d\n", round+1, o.rounds)
		for i := range all {
			k := (i + round) % len(all)
			out, err := o.send(ctx, "http://"+worker.Address+"/", all[k])
			if err != nil {
				return nil, err
			}
			got[k] = append(got[k], out)
		}
	}
	for i, name := range names {
		rows = append(rows, o.rows(name, got[i*of:(i+1)*of])...)
	}
	for k, c := range all[of:] {
		now, before := got[k], got[of+k]
		rows = append(rows, table.Of(fmt.Sprintf("%d at %g/s: CPU beside before", c.generators, c.rate.RPS()/float64(c.generators)), "ratio",
			each(o.rounds, func(i int) float64 { return now[i].cores() / before[i].cores() })...))
	}
	return rows, nil
}

// rows say what a build's contenders did, in their order.
func (o options) rows(name string, got [][]outcome) []table.Row {
	one, many, share, idle := got[0], got[1], got[2], got[3]
	alone := fmt.Sprintf("%sone at %g/s", name, o.rps)
	shared := fmt.Sprintf("%s%d at %g/s each", name, together, o.rps/together)
	single := fmt.Sprintf("%sone at %g/s", name, o.rps/together)
	idleOf := func(i, generators int) float64 { return float64(generators) * idle[i].cores() }
	over := func(a, b func(i int) float64) []float64 {
		return each(len(one), func(i int) float64 { return a(i) / b(i) })
	}
	cost := func(of []outcome) func(i int) float64 {
		return func(i int) float64 { return of[i].micros(of[i].CPU) }
	}
	active := func(of []outcome, generators int) func(i int) float64 {
		return func(i int) float64 { return of[i].micros(of[i].CPU - of[i].Seconds*idleOf(i, generators)) }
	}
	rows := []table.Row{
		table.Of(name+"a generator without requests", "mCPU", each(len(idle), func(i int) float64 { return 1e3 * idleOf(i, 1) })...),
	}
	for _, c := range []struct {
		name string
		of   []outcome
	}{{alone, one}, {shared, many}, {single, share}} {
		row := func(what, unit string, of func(outcome) float64) {
			rows = append(rows, table.Of(c.name+what, unit, each(len(c.of), func(i int) float64 { return of(c.of[i]) })...))
		}
		row("", "us CPU/request", func(x outcome) float64 { return x.micros(x.CPU) })
		row(": a thread got a CPU", "times/request", func(x outcome) float64 { return float64(x.Turns) / float64(x.Requests) })
		row(": lag p50", "us", func(x outcome) float64 { return x.LagP50 })
		row(": lag p99", "us", func(x outcome) float64 { return x.LagP99 })
	}
	return append(rows,
		table.Of(shared+" over one at all of it", "ratio", over(cost(many), cost(one))...),
		table.Of(shared+" over one at all of it, idle parts apart", "ratio", over(active(many, together), active(one, 1))...),
		table.Of(shared+" over one of the same rate", "ratio", over(cost(many), cost(share))...).AtMost(most),
	)
}

// each is a figure of each round.
func each(rounds int, of func(i int) float64) []float64 {
	out := make([]float64, rounds)
	for i := range out {
		out[i] = of(i)
	}
	return out
}
