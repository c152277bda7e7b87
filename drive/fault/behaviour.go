package fault

import (
	"slices"
	"time"

	"github.com/meshtrial/meshtrial/drive/graph"
)

// Behaviour changes how a worker behaves; a nil field changes nothing.
type Behaviour struct {
	ServiceTime   *graph.ServiceTime
	ResponseBytes *int64
	Concurrency   *int           // requests served at once; 0 for no bound
	Queue         *int           // requests that may wait for a free place
	CPU           *time.Duration // CPU time spent on each request
	Memory        *int64         // bytes held
	// Failures replace those in force; empty but not nil removes them.
	Failures []graph.Failure
	Ready    *bool // answer of the readiness probe
}

// In returns the graph with the behaviour applied to all workers of a service.
func (b Behaviour) In(g graph.Graph, service string) graph.Graph {
	out := g
	out.Services = slices.Clone(g.Services)
	for i := range out.Services {
		one := &out.Services[i]
		if one.Name != service {
			continue
		}
		if b.ServiceTime != nil {
			one.ServiceTime = *b.ServiceTime
		}
		if b.Concurrency != nil {
			one.Concurrency = *b.Concurrency
		}
		if b.CPU != nil {
			one.CPU = *b.CPU
		}
		if b.Failures != nil {
			one.Failures = nil // counted already
		}
	}
	return out
}
