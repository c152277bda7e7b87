// Command bench compares meshtrial's load engine with other generators and with
// the truth, on this machine, and reports whether it reaches its targets:
//
//	requests per CPU-second        of the client; paired with wrk and fortio, nginx as server
//	schedule lag                   paced, on an idle core
//	truth                          percentiles against a queueing oracle fed
//	                               with the same schedule and service times
//
// Client and server have a core each. In every round all generators run in
// turn, in an order that rotates, and ratios are taken within the round, so
// drift of the machine affects them little. Figures other than ratios need an
// idle machine; the load average is printed with them.
//
// It installs nothing. It names missing programs, with the command that
// installs them.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/bench/internal/table"
)

func main() {
	var b bench
	before := loadAverage()
	table.Program{
		Name:  "load engine",
		Roles: map[string]table.Role{serverMode: serve},
		Flags: func(f *flag.FlagSet) {
			f.IntVar(&b.rounds, "rounds", 5, "rounds of paired runs")
			f.DurationVar(&b.each, "each", 3*time.Second, "length of each run")
			f.IntVar(&b.serverCPU, "server-cpu", 0, "core of the server")
			f.IntVar(&b.clientCPU, "client-cpu", 1, "core of the client")
		},
		Setup: func(ctx context.Context) (func() error, error) { return b.close, b.open(ctx) },
		Title: func() string {
			return fmt.Sprintf("load engine, %d rounds of %v, load average before %s", b.rounds, b.each, before)
		},
		Parts: []table.Part{{Name: "speed", Run: b.speed}, {Name: "paced", Run: b.paced}, {Name: "lag", Run: b.lag}, {Name: "truth", Run: b.truth}},
	}.Main()
}

func loadAverage() string {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(data))[:3], " ")
}
