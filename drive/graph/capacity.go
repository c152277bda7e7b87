package graph

import (
	"math"
	"time"
)

// Capacity is the load that the remaining replicas of a service can serve.
type Capacity struct {
	Service  string `json:"service"`
	Replicas int    `json:"replicas"` // remaining
	// Bounded says that there is a bound. There is none if concurrency is
	// unlimited or requests take no time.
	Bounded bool `json:"bounded"`
	// MaxRPS is replicas times concurrency over the mean hold. The hold is a
	// lower bound, so this is an upper one.
	MaxRPS float64 `json:"max_rps,omitempty"`
	RPS    float64 `json:"rps"` // requested
	// Utilisation is RPS over MaxRPS. Unserved is the share of requests that
	// can never be served, however long they wait.
	Utilisation float64 `json:"utilisation"`
	Unserved    float64 `json:"unserved"`
}

// Capacity returns the capacity of a service after some replicas were removed. A
// service that is not in the graph has none.
func (f Flow) Capacity(service string, removed int) Capacity {
	i, ok := f.index[service]
	if !ok {
		return Capacity{Service: service, Bounded: true}
	}
	s, flow := f.graph.Services[i], f.Services[i]
	c := Capacity{Service: service, Replicas: max(0, s.Replicas-max(0, removed)), RPS: flow.RPS}
	switch {
	case c.Replicas == 0:
		c.Bounded = true
	case s.Concurrency > 0 && flow.Hold > 0:
		c.Bounded = true
		c.MaxRPS = float64(c.Replicas) * float64(s.Concurrency) / flow.Hold.Seconds()
	}
	if c.Bounded && c.RPS > 0 {
		c.Unserved = max(0, 1-c.MaxRPS/c.RPS)
		if c.MaxRPS > 0 {
			c.Utilisation = c.RPS / c.MaxRPS
		} else {
			c.Utilisation = 1
		}
	}
	return c
}

func seconds(s float64) time.Duration { return time.Duration(math.Round(s * 1e9)) }
