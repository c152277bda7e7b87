// Command bench measures meshtrial's load engine against other generators and
// against the truth, on this machine, and says whether it reaches its
// targets:
//
//	requests a client CPU-second   paired with wrk and fortio, nginx as server
//	schedule lag                   paced, on an idle core
//	truth                          percentiles against a queueing oracle fed
//	                               with the same schedule and service times
//
// Client and server have a core each. In every round all generators run in
// turn, in an order that rotates, and ratios are taken within the round, so
// that a machine that drifts spoils the ratios little. Figures other than
// ratios need an idle machine; the load average is printed with them.
//
// It installs nothing. What is missing it names, with the command that gets
// it.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/bench/internal/table"
)

// document is the JSON output.
type document struct {
	Schema      int         `json:"schema"`
	LoadAverage string      `json:"load_average"`
	Rounds      int         `json:"rounds"`
	SecondsEach float64     `json:"seconds_each"`
	Results     []table.Row `json:"results"`
}

func main() { os.Exit(table.Main("bench", run)) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 1 && args[0] == serverMode {
		return serve(ctx, os.Stdin, stdout)
	}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	rounds := flags.Int("rounds", 5, "rounds of paired runs")
	each := flags.Duration("each", 3*time.Second, "length of each run")
	only := flags.String("only", "speed,paced,lag,truth", "which parts to run")
	jsonFile := flags.String("json", "", "also write the results to this file")
	serverCPU := flags.Int("server-cpu", 0, "core of the server")
	clientCPU := flags.Int("client-cpu", 1, "core of the client")
	if err := flags.Parse(args); err != nil {
		return err
	}
	b, err := newBench(ctx, *serverCPU, *clientCPU, *each, stderr)
	if err != nil {
		return err
	}
	defer b.close()
	doc := document{Schema: 1, LoadAverage: loadAverage(), Rounds: *rounds, SecondsEach: each.Seconds()}
	doc.Results, err = table.Run(ctx, *only, []table.Part{
		{Name: "speed", Run: func(ctx context.Context) ([]table.Row, error) { return b.speed(ctx, *rounds) }},
		{Name: "paced", Run: func(ctx context.Context) ([]table.Row, error) { return b.paced(ctx, *rounds) }},
		{Name: "lag", Run: func(ctx context.Context) ([]table.Row, error) { return b.lag(ctx, *rounds) }},
		{Name: "truth", Run: b.truth},
	})
	title := fmt.Sprintf("load engine, %d rounds of %g s, load average before %s", doc.Rounds, doc.SecondsEach, doc.LoadAverage)
	return table.Report(stdout, title, doc.Results, err, *jsonFile, doc)
}

func loadAverage() string {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(data))[:3], " ")
}
