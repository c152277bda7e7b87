// Command xds measures the simulated sidecars against their targets, on this
// machine:
//
//	timing   difference between the time at which a sidecar reports having
//	         received a change and when the server wrote it, on the same clock
//	istiod   2,000 sidecars and 1,000 services at the local lab's istiod: how
//	         long until all are connected, memory, and the sidecars' CPU as a
//	         share of istiod's while it pushes
//
// The sidecars always run in a separate process (this program again), so its
// memory and CPU are theirs alone. Everything shares the machine's cores; in the
// part istiod the process has the share of them that its pod has in a study.
//
// pilot-load, the known simulator, is not run here, since it is not available as a
// module. On two cores with 1,000 services and 200 proxies it took 1.1 to 1.5 MB
// and 28 ms of CPU per proxy to connect, and for two pushes 3.58 s of CPU where
// istiod itself used 2.25 s. The target for connecting is a tenth of its 28 ms, in
// milliseconds and therefore for machines of that kind; the target for pushes is a
// ratio to istiod's CPU in this run (pilot-load: 1.6).
//
// The studies themselves measure how long they take: meshtrial run
// control-plane-tuning, and sidecar-scope.
//
// The part istiod uses the running lab, or starts one with bin/meshtrial in the
// working directory and ends it afterwards; it needs root.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/meshtrial/meshtrial/bench/internal/table"
)

// Targets.
const (
	memoryTarget  = 60   // KB a sidecar
	pilotLoadMS   = 28.0 // CPU of a proxy in pilot-load
	connectTarget = pilotLoadMS / 10
	shareTarget   = 0.15 // of istiod's CPU
	admitTarget   = 0.9  // of the streams a second that istiod admits
	lagTarget     = 0.1  // of what is measured
	timingTarget  = 1.0  // ms
)

// options are the options of the parts.
type options struct {
	services int
	sidecars int // at istiod
	pushes   int
}

func (o *options) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s "+format+"\n", append([]any{time.Now().Format("15:04:05")}, args...)...)
}

func main() {
	var o options
	table.Program{
		Name:  "xds",
		Roles: map[string]table.Role{fleetMode: serveFleet},
		Flags: func(f *flag.FlagSet) {
			f.IntVar(&o.services, "services", 1000, "services in the configuration")
			f.IntVar(&o.sidecars, "sidecars", 2000, "sidecars at istiod")
			f.IntVar(&o.pushes, "pushes", 5, "pushes measured")
		},
		Title: func() string { return "simulated sidecars" },
		Parts: []table.Part{{Name: "timing", Run: o.timing}, {Name: "istiod", Run: o.istiod}},
	}.Main()
}
