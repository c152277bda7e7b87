package fault

import (
	"time"

	"github.com/meshtrial/meshtrial/graph"
)

// Behaviour is a change of what a worker does; what is nil stays as it was.
type Behaviour struct {
	ServiceTime   *graph.ServiceTime
	ResponseBytes *int64
	Concurrency   *int           // requests served at once; 0 for no bound
	Queue         *int           // requests that may wait for that
	CPU           *time.Duration // CPU time spent on each request
	Memory        *int64         // bytes held
	// Failures replace those in force; empty and not nil: none any longer.
	Failures []graph.Failure
	Ready    *bool // what the readiness probe is told
}
