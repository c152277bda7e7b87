package graph

import (
	"fmt"
	"math"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// Load is the load on a graph.
type Load struct {
	Entry string
	RPS   float64 // requests per second at the entry, before retries
	// FailureShare is the share of attempts, 0 to 1, that fail independently on every call,
	// including the client's. Retries is how often the mesh retries one; workers retry in
	// addition, as their calls specify.
	FailureShare float64
	Retries      int
}

// Flow is the expected traffic of a graph under a load. It leaves out:
//
//   - time in proxies, in the network and in waiting for a free place
//   - timeouts: a call lasts until it is answered
//   - failures other than the load's share; a failed attempt costs its callee as much as any
//   - contention for the machine's CPUs
type Flow struct {
	Load     Load          `json:"load"`
	Services []ServiceFlow `json:"services"` // in the graph's order
	Edges    []EdgeFlow    `json:"edges"`    // by caller in the graph's order, then by call

	graph Graph
	index map[string]int
}

// ServiceFlow is the traffic of one service.
type ServiceFlow struct {
	Service string  `json:"service"`
	Visits  float64 `json:"visits"` // requests per request at the entry
	RPS     float64 `json:"rps"`
	// Hold is a lower bound of the mean time that a request keeps its place:
	// its service time plus that of its calls. In sequence that is their sum;
	// in parallel it is the longest mean, which never exceeds the mean of the
	// longest.
	Hold time.Duration `json:"hold_ns"`
}

// EdgeFlow is the traffic of one call of a service.
type EdgeFlow struct {
	From     string  `json:"from"`
	To       string  `json:"to"`
	Call     int     `json:"call"`         // index among the caller's calls
	Calls    float64 `json:"calls_rps"`    // without retries
	Attempts float64 `json:"attempts_rps"` // with the retries of worker and mesh
}

// Amplification returns the mean number of attempts of a request that is retried
// up to retries times while each attempt fails with the same probability:
// 1 + p + p^2 ... + p^retries.
func Amplification(share float64, retries int) float64 {
	sum, term := 1.0, 1.0
	for range retries {
		term *= share
		sum += term
	}
	return sum
}

// attempts returns the number of attempts per call that reach the callee: the mesh retries
// within each attempt of the worker.
func (l Load) attempts(retries int) float64 {
	return Amplification(l.FailureShare, l.Retries) * Amplification(math.Pow(l.FailureShare, float64(l.Retries+1)), retries)
}

// Flow returns the expected traffic of a graph that passed its check.
func (g Graph) Flow(load Load) (Flow, error) {
	f := Flow{Load: load, graph: g, index: g.index(), Services: make([]ServiceFlow, len(g.Services))}
	entry, ok := f.index[load.Entry]
	switch {
	case !ok:
		return Flow{}, errs.Usage("load: there is no service %q in the graph", load.Entry)
	case !(load.RPS >= 0) || math.IsInf(load.RPS, 1):
		return Flow{}, errs.Usage("load: %v requests per second are impossible", load.RPS)
	case !(load.FailureShare >= 0 && load.FailureShare <= 1):
		return Flow{}, errs.Usage("load: a share of %v is out of range, 0 to 1 is possible", load.FailureShare)
	case load.Retries < 0 || load.Retries > MaxRetries:
		return Flow{}, errs.Usage("load: %d retries are out of range, 0 to %d is possible", load.Retries, MaxRetries)
	}
	order := g.order()
	if len(order) != len(g.Services) {
		return Flow{}, fmt.Errorf("the graph's calls form a cycle")
	}
	for i, s := range g.Services {
		f.Services[i].Service = s.Name
	}
	f.Services[entry].Visits = load.attempts(0)
	for _, i := range order {
		for _, call := range g.Services[i].Calls {
			f.Services[f.index[call.To]].Visits += f.Services[i].Visits * call.Probability * float64(call.Times) * load.attempts(call.Retries)
		}
	}
	for i, s := range g.Services {
		f.Services[i].RPS = load.RPS * f.Services[i].Visits
		for j, call := range s.Calls {
			calls := f.Services[i].RPS * call.Probability * float64(call.Times)
			f.Edges = append(f.Edges, EdgeFlow{s.Name, call.To, j, calls, calls * load.attempts(call.Retries)})
		}
	}
	for at := len(order) - 1; at >= 0; at-- {
		f.hold(order[at])
	}
	return f, nil
}

// hold computes a service's hold from the holds of its callees.
func (f *Flow) hold(i int) {
	s := f.graph.Services[i]
	calls := 0.0
	for _, call := range s.Calls {
		one := float64(f.Services[f.index[call.To]].Hold) * call.Probability
		if s.Mode == Parallel {
			calls = max(calls, one)
		} else {
			calls += one * float64(call.Times)
		}
	}
	f.Services[i].Hold = max(s.ServiceTime.MeanOf(), s.CPU) + time.Duration(min(calls, math.MaxInt64/4))
}

// Service returns the flow of a service.
func (f Flow) Service(name string) (ServiceFlow, bool) {
	i, ok := f.index[name]
	if !ok {
		return ServiceFlow{}, false
	}
	return f.Services[i], true
}
