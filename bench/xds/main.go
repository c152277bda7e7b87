// Command xds measures the simulated sidecars against their targets, on this
// machine:
//
//	limit    10,000 sidecars with 1,000 services each at our own discovery
//	         server: memory, how fast they connect, pushes a second
//	timing   how far the time at which a sidecar says it received a change is
//	         from when the server wrote it to the connection, same clock
//	istiod   2,000 sidecars and 1,000 services at the local lab's istiod: how
//	         long until all are connected, memory, and the sidecars' CPU as a
//	         share of istiod's while it pushes
//
// The sidecars always run in a process of their own (this program again), so
// that its memory and CPU are theirs alone. Everything shares the machine's
// cores. pilot-load, the known simulator, takes 1.1 to 1.5 MB a proxy with
// 1,000 services; it is not run here.
//
// The part istiod takes the lab that runs, or starts one with bin/meshmark
// in the working directory and ends it afterwards; it needs root.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/meshmark/meshmark/bench/internal/table"
)

// title of the table.
const title = "simulated sidecars"

// Targets.
const (
	memoryTarget = 60   // KB a sidecar
	shareTarget  = 0.15 // of istiod's CPU
	timingTarget = 1.0  // ms
)

// options are what the parts are run with.
type options struct {
	proxies  int // at our own server
	services int
	sidecars int // at istiod
	pushes   int
	progress io.Writer
}

func (o options) say(format string, args ...any) {
	fmt.Fprintf(o.progress, "%s "+format+"\n", append([]any{time.Now().Format("15:04:05")}, args...)...)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench xds:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 1 && args[0] == fleetMode {
		return serveFleet(ctx, os.Stdin, stdout)
	}
	flags := flag.NewFlagSet("xds", flag.ContinueOnError)
	flags.SetOutput(stderr)
	o := options{progress: stderr}
	only := flags.String("only", "timing,limit,istiod", "which parts to run")
	jsonFile := flags.String("json", "", "also write the results to this file")
	flags.IntVar(&o.proxies, "proxies", 10_000, "sidecars at our own server")
	flags.IntVar(&o.services, "services", 1000, "services in the configuration")
	flags.IntVar(&o.sidecars, "sidecars", 2000, "sidecars at istiod")
	flags.IntVar(&o.pushes, "pushes", 5, "pushes measured")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var all []table.Row
	for _, part := range strings.Split(*only, ",") {
		do, ok := map[string]func(context.Context, options) ([]table.Row, error){"timing": timing, "limit": limit, "istiod": istiod}[part]
		if !ok {
			return fmt.Errorf("-only %q: want timing, limit or istiod", part)
		}
		results, err := do(ctx, o)
		all = append(all, results...)
		if err != nil {
			return errors.Join(fmt.Errorf("%s: %w", part, err), table.Print(stdout, title, all)) // with what there is
		}
	}
	err := table.WriteJSON(*jsonFile, struct {
		Schema  int         `json:"schema"`
		Results []table.Row `json:"results"`
	}{1, all})
	if err := errors.Join(table.Print(stdout, title, all), err); err != nil {
		return err
	}
	return table.Judge(all)
}
