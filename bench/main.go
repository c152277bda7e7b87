// Command bench measures meshmark's load engine against other generators and
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
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// result is one line of the table.
type result struct {
	Name   string    `json:"name"`
	Unit   string    `json:"unit"`
	Median float64   `json:"median"`
	Low    float64   `json:"low"`
	High   float64   `json:"high"`
	Values []float64 `json:"values"`
	Target string    `json:"target,omitempty"` // in words; "" for none
	Pass   bool      `json:"pass"`             // true without a target
}

// document is the JSON output.
type document struct {
	Schema      int      `json:"schema"`
	LoadAverage string   `json:"load_average"`
	Rounds      int      `json:"rounds"`
	SecondsEach float64  `json:"seconds_each"`
	Results     []result `json:"results"`
}

// summary makes a result of the values of all rounds.
func summary(name, unit string, values []float64) result {
	sorted := slices.Sorted(slices.Values(values))
	r := result{Name: name, Unit: unit, Values: values, Pass: true}
	if n := len(sorted); n > 0 {
		r.Low, r.High = sorted[0], sorted[n-1]
		r.Median = (sorted[(n-1)/2] + sorted[n/2]) / 2
	}
	return r
}

// atLeast judges the median.
func (r result) atLeast(target float64) result {
	r.Target, r.Pass = fmt.Sprintf(">= %g", target), r.Median >= target
	return r
}

// atMost judges the median.
func (r result) atMost(target float64) result {
	r.Target, r.Pass = fmt.Sprintf("<= %g", target), r.Median <= target
	return r
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// errMissed says that a target was missed.
var errMissed = errors.New("a target was missed")

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
	for _, part := range strings.Split(*only, ",") {
		var results []result
		var err error
		switch part {
		case "speed":
			results, err = b.speed(ctx, *rounds)
		case "paced":
			results, err = b.paced(ctx, *rounds)
		case "lag":
			results, err = b.lag(ctx, *rounds)
		case "truth":
			results, err = b.truth(ctx)
		default:
			err = fmt.Errorf("-only %q: want speed, paced, lag or truth", part)
		}
		doc.Results = append(doc.Results, results...)
		if err != nil {
			return errors.Join(err, print(stdout, doc)) // with what there is
		}
	}
	if err := print(stdout, doc); err != nil {
		return err
	}
	if *jsonFile != "" {
		data, err := json.MarshalIndent(doc, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(*jsonFile, append(data, '\n'), 0o644); err != nil {
			return err
		}
	}
	for _, r := range doc.Results {
		if !r.Pass {
			return errMissed
		}
	}
	return nil
}

func print(out io.Writer, doc document) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "load engine, %d rounds of %g s, load average before %s\n\n", doc.Rounds, doc.SecondsEach, doc.LoadAverage)
	fmt.Fprintf(w, "\tmedian\tlow\thigh\tunit\ttarget\t\t\n")
	for _, r := range doc.Results {
		verdict := ""
		if r.Target != "" {
			verdict = map[bool]string{true: "reached", false: "MISSED"}[r.Pass]
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", r.Name, number(r.Median), number(r.Low), number(r.High), r.Unit, r.Target, verdict)
	}
	return w.Flush()
}

func number(v float64) string {
	if v >= 1000 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

func loadAverage() string {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(data))[:3], " ")
}
