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
// round.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
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
	self        string // this program
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
		},
		Setup: func(context.Context) (_ func() error, err error) {
			if o.rounds < 1 || o.each < time.Second || o.rps < together || o.connections < together {
				return nil, errors.New("-rounds: at least 1; -each: at least 1s; -rate and -connections: at least 4")
			}
			o.self, err = os.Executable()
			return nil, err
		},
		Title: func() string {
			return fmt.Sprintf("one generator and %d, %g requests/s, %d rounds of %v", together, o.rps, o.rounds, o.each)
		},
		Parts: []table.Part{{Name: "generators", Run: o.compare}, {Name: "streams", Run: o.streams}},
	}.Main()
}

// contender is a number of generators that run together.
type contender struct {
	generators  int
	rate        rate.Rate // over all generators
	connections int       // over all generators
}

// compare runs one generator, several, one at the rate of each, and one without requests in every
// round.
func (o *options) compare(ctx context.Context) (rows []table.Row, err error) {
	worker, err := child.Start(ctx, workerMode, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, worker.Close()) }()
	address, _, _ := strings.Cut(worker.Address, ",")
	all := []contender{
		{1, rate.Rate(o.rps), o.connections}, {together, rate.Rate(o.rps), o.connections},
		{1, rate.Rate(o.rps / together), o.connections / together}, {1, idleRate, o.connections / together},
	}
	got, err := table.Rounds("generators", o.rounds, len(all), func(i int) (outcome, error) {
		return o.send(ctx, "http://"+address+"/", all[i])
	})
	if err != nil {
		return nil, err
	}
	one, many, share, idle := got[0], got[1], got[2], got[3]
	shared := fmt.Sprintf("%d at %g/s each", together, o.rps/together)
	rows = append(rows, table.Of("a generator without requests", "mCPU", table.Each(idle, func(x outcome) float64 { return 1e3 * x.cores() })...))
	for _, c := range []struct {
		name string
		of   []outcome
	}{{fmt.Sprintf("one at %g/s", o.rps), one}, {shared, many}, {fmt.Sprintf("one at %g/s", o.rps/together), share}} {
		rows = append(rows,
			table.Of(c.name, "us CPU/request", table.Each(c.of, outcome.cost)...),
			table.Of(c.name+": lag p50", "us", table.Each(c.of, func(x outcome) float64 { return x.LagP50 })...),
			table.Of(c.name+": lag p99", "us", table.Each(c.of, func(x outcome) float64 { return x.LagP99 })...))
	}
	return append(rows,
		table.Of(shared+" over one at all of it", "ratio", table.Ratios(many, one, outcome.cost)...),
		table.Of(shared+" over one of the same rate", "ratio", table.Ratios(many, share, outcome.cost)...).AtMost(most),
	), nil
}
