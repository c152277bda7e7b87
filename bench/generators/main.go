// Command generators measures the cost of having several load generators send what one could:
// the CPU time per request if one of them sends alone, and if four send together, each in a
// separate process as in a pod. They send to a worker over this machine's loopback.
//
// A generator sleeps until a request is due. When it wakes, it does everything that is due, and
// the rarer its requests are, the more of them have a separate sleep. So the bench also measures
// one generator at the rate of each of the four, and one with almost nothing to send: the rest
// of the difference is neither of these.
//
// It also compares messages on streams, which stay open, with requests of HTTP/1.1.
//
// In every round all run in turn, in an order that rotates, and ratios are taken within the
// round. With -before it also measures another build of this program.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/bench/internal/child"
	"github.com/meshtrial/meshtrial/bench/internal/table"
	"github.com/meshtrial/meshtrial/record/rate"
)

const (
	// most is the maximum cost per request of several generators, relative to a single one at
	// the rate of each.
	most = 1.1
	// together is how many generators send what one could.
	together = 4
	// idleRate is the rate of a generator with almost nothing to send, in requests per second.
	idleRate = 1
)

// options are the options of the bench.
type options struct {
	rounds      int
	each        time.Duration
	rps         float64
	connections int
	before      string
}

func main() {
	var o options
	table.Program{
		Name:  "generators",
		Roles: map[string]table.Role{workerMode: serveWorker, child.Generator: serveGenerator},
		Flags: func(f *flag.FlagSet) {
			f.IntVar(&o.rounds, "rounds", 6, "rounds of paired runs")
			f.DurationVar(&o.each, "each", 3*time.Second, "length of each window")
			f.Float64Var(&o.rps, "rate", 5000, "requests per second of all generators together")
			f.IntVar(&o.connections, "connections", 16, "connections of all generators together")
			f.StringVar(&o.before, "before", "", "another build of this program, to be measured in the same rounds")
		},
		Title: func() string {
			return fmt.Sprintf("one generator and %d, %g requests/s, %d rounds of %v", together, o.rps, o.rounds, o.each)
		},
		Parts: []table.Part{{Name: "generators", Run: o.compare}, {Name: "streams", Run: o.streams}},
	}.Main()
}

// contender is a number of generators of one build of this program that run together.
type contender struct {
	program     string
	generators  int
	rate        rate.Rate // over all generators
	connections int       // over all generators
}

// contenders returns the contenders of a build: one, several, one at the rate of each, and one
// without requests.
func (o *options) contenders(program string) []contender {
	all, part := rate.Rate(o.rps), rate.Rate(o.rps/together)
	return []contender{
		{program, 1, all, o.connections}, {program, together, all, o.connections},
		{program, 1, part, o.connections / together}, {program, 1, idleRate, o.connections / together},
	}
}

// compare runs all contenders in every round.
func (o *options) compare(ctx context.Context) (rows []table.Row, err error) {
	if o.rounds < 1 || o.each < time.Second || o.rps < together || o.connections < together {
		return nil, errors.New("-rounds: at least 1; -each: at least 1s; -rate and -connections: at least 4")
	}
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
	got, err := table.Rounds("generators", o.rounds, len(all), func(i int) (outcome, error) {
		address, _, _ := strings.Cut(worker.Address, ",")
		return o.send(ctx, "http://"+address+"/", all[i])
	})
	if err != nil {
		return nil, err
	}
	for i, name := range names {
		rows = append(rows, o.rows(name, got[i*of:(i+1)*of])...)
	}
	for k, c := range all[of:] {
		rows = append(rows, table.Of(fmt.Sprintf("%d at %g/s: CPU beside before", c.generators, c.rate.RPS()/float64(c.generators)), "ratio",
			table.Ratios(got[k], got[of+k], outcome.cores)...))
	}
	return rows, nil
}

// rows reports the results of a build's contenders, in order.
func (o *options) rows(name string, got [][]outcome) []table.Row {
	one, many, share, idle := got[0], got[1], got[2], got[3]
	alone := fmt.Sprintf("%sone at %g/s", name, o.rps)
	shared := fmt.Sprintf("%s%d at %g/s each", name, together, o.rps/together)
	single := fmt.Sprintf("%sone at %g/s", name, o.rps/together)
	rows := []table.Row{
		table.Of(name+"a generator without requests", "mCPU", table.Each(idle, func(x outcome) float64 { return 1e3 * x.cores() })...),
	}
	for _, c := range []struct {
		name string
		of   []outcome
	}{{alone, one}, {shared, many}, {single, share}} {
		row := func(what, unit string, of func(outcome) float64) {
			rows = append(rows, table.Of(c.name+what, unit, table.Each(c.of, of)...))
		}
		row("", "us CPU/request", outcome.cost)
		row(": a thread got a CPU", "times/request", func(x outcome) float64 { return float64(x.Turns) / float64(x.Requests) })
		row(": lag p50", "us", func(x outcome) float64 { return x.LagP50 })
		row(": lag p99", "us", func(x outcome) float64 { return x.LagP99 })
	}
	return append(rows,
		table.Of(shared+" over one at all of it", "ratio", table.Ratios(many, one, outcome.cost)...),
		table.Of(shared+" over one at all of it, idle parts apart", "ratio", table.Ratios(active(many, idle, together), active(one, idle, 1), outcome.cost)...),
		table.Of(shared+" over one of the same rate", "ratio", table.Ratios(many, share, outcome.cost)...).AtMost(most),
	)
}

// active returns the result of a number of generators, minus the CPU of as many that have
// nothing to send.
func active(of, idle []outcome, generators float64) []outcome {
	out := slices.Clone(of)
	for i := range out {
		out[i].CPU -= out[i].Seconds * generators * idle[i].cores()
	}
	return out
}
