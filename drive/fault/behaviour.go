package fault

import (
	"slices"
	"time"

	"github.com/meshtrial/meshtrial/drive/graph"
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

// In is a graph with a service all of whose workers behave so.
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
