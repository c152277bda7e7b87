package graph

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/meshtrial/meshtrial/stat/queueing"
)

// Capacity is the load that the remaining replicas of a service can serve.
type Capacity struct {
	Service  string `json:"service"`
	Replicas int    `json:"replicas"` // remaining
	// Bounded says that there is a bound. None is known where concurrency has
	// no limit or requests take no time.
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

// Waiting is how long requests wait for a free place at a service, and how long
// they spend there in all.
type Waiting struct {
	// Stable says that the queue does not grow without end. If it does, all
	// times are 0.
	Stable bool          `json:"stable"`
	Mean   time.Duration `json:"wait_mean_ns"`
	P50    time.Duration `json:"sojourn_p50_ns"` // wait and hold
	P99    time.Duration `json:"sojourn_p99_ns"`
}

// simulated is how many requests Waiting simulates. The first tenth fills the
// queue and is discarded.
const simulated = 50_000

// Waiting simulates one replica of a service after some were removed: Poisson
// arrivals, split evenly and at random between replicas (a balancer that knows
// their load does better), first come first served, an unbounded queue. Service
// times are drawn from the distribution; calls take their lower bound. The same
// seed gives the same answer.
func (f Flow) Waiting(service string, removed int, seed uint64) Waiting {
	c := f.Capacity(service, removed)
	if c.Replicas == 0 || c.Bounded && c.Utilisation >= 1 {
		return Waiting{}
	}
	i := f.index[service]
	s, flow := f.graph.Services[i], f.Services[i]
	r := rand.New(rand.NewPCG(seed, 0x6d6d))
	rate := flow.RPS / float64(c.Replicas)
	calls := (flow.Hold - max(s.ServiceTime.MeanOf(), s.CPU)).Seconds()
	arrivals, holds := make([]float64, simulated), make([]float64, simulated)
	at := 0.0
	for n := range arrivals {
		if rate > 0 {
			at += r.ExpFloat64() / rate
		} else {
			at += 3600 // no two requests meet
		}
		arrivals[n] = at
		holds[n] = max(s.ServiceTime.draw(r), s.CPU.Seconds()) + calls
	}
	sojourns := queueing.Sojourns(arrivals, holds, s.Concurrency)
	wait := 0.0
	counted := sojourns[simulated/10:]
	for n, t := range counted {
		wait += t - holds[simulated/10+n]
	}
	slices.Sort(counted)
	return Waiting{Stable: true, Mean: seconds(wait / float64(len(counted))),
		P50: seconds(counted[len(counted)/2]), P99: seconds(counted[len(counted)*99/100])}
}

func seconds(s float64) time.Duration { return time.Duration(math.Round(s * 1e9)) }

// draw returns a service time in seconds.
func (t ServiceTime) draw(r *rand.Rand) float64 {
	switch t.Distribution {
	case Exponential:
		return min(r.ExpFloat64()*t.Mean.Seconds(), MaxTime.Seconds())
	case Lognormal:
		mu := math.Log(t.Mean.Seconds()) - t.Sigma*t.Sigma/2
		return min(math.Exp(mu+t.Sigma*r.NormFloat64()), MaxTime.Seconds())
	case Recorded:
		if len(t.Values) == 0 {
			return 0
		}
		return t.Values[r.IntN(len(t.Values))].Seconds()
	}
	return t.Mean.Seconds()
}
