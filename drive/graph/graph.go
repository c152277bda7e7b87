package graph

import (
	"cmp"
	"slices"
	"time"

	"github.com/meshtrial/meshtrial/study/protocol"
)

// Modes of a service's calls.
const (
	Sequence = "sequence" // one after the other, in their order
	Parallel = "parallel" // all at once
)

// Distributions of service time.
const (
	Fixed       = "fixed"
	Exponential = "exponential"
	Lognormal   = "lognormal"
	Recorded    = "recorded"
)

// Graph is a service graph. Calls must not form a cycle.
type Graph struct {
	Services []Service `json:"services"`
}

// Service is a service of the graph. Zero fields take the defaults of
// [Graph.WithDefaults].
type Service struct {
	Name     string `json:"name"`
	Replicas int    `json:"replicas"`
	Sidecar  bool   `json:"sidecar"` // its pods have the mesh's proxy
	// Gateway means that its pods are the mesh's ingress gateway: proxies without a
	// program, which send each request on to the only service that it calls.
	Gateway       bool          `json:"gateway,omitempty"`
	Protocol      string        `json:"protocol"`
	ResponseBytes int64         `json:"response_bytes"`
	ServiceTime   ServiceTime   `json:"service_time"`
	Concurrency   int           `json:"concurrency,omitempty"` // requests that a replica serves at once; 0: unlimited
	Queue         int           `json:"queue,omitempty"`       // requests that may wait for a place; more are refused
	CPU           time.Duration `json:"cpu_ns,omitempty"`      // CPU time burned on each request, within its service time
	Failures      []Failure     `json:"failures,omitempty"`
	Calls         []Call        `json:"calls,omitempty"`
	Mode          string        `json:"mode"`
}

// ServiceTime is how long a worker holds a request before it calls others or
// answers. The zero value does not hold it.
type ServiceTime struct {
	Distribution string        `json:"distribution,omitempty"`
	Mean         time.Duration `json:"mean_ns,omitempty"` // of the time itself, also for lognormal
	// Sigma is the standard deviation of the time's natural logarithm
	// (lognormal only).
	Sigma float64 `json:"sigma,omitempty"`
	// Values are recorded times, drawn from at random (recorded only).
	Values []time.Duration `json:"values_ns,omitempty"`
}

// Ways in which a worker fails a request.
const (
	FailStatus   = "status"    // answers with an error
	FailReset    = "reset"     // resets the connection
	FailHang     = "hang"      // never answers
	FailSlowBody = "slow-body" // sends the answer slowly
	FailCrash    = "crash"     // ends its process
)

// Failure is a share of requests, 0 to 1, that a worker fails.
type Failure struct {
	Share  float64 `json:"share"`
	How    string  `json:"how"`
	Status int     `json:"status,omitempty"` // FailStatus: 400..599
}

// Call is a request that a service makes for each request that it serves.
type Call struct {
	To           string        `json:"to"`
	RequestBytes int64         `json:"request_bytes,omitempty"`
	Timeout      time.Duration `json:"timeout_ns,omitempty"` // of each attempt; 0: the worker's default
	Retries      int           `json:"retries,omitempty"`    // by the worker, in addition to the mesh's
	Probability  float64       `json:"probability"`          // above 0 and up to 1
	Times        int           `json:"times"`                // requests it makes
}

// Bounds of a graph.
const (
	MaxServices    = 2000
	MaxReplicas    = 1000   // of a service
	MaxPods        = 20_000 // of all services
	MaxCalls       = 256    // of a service
	MaxTimes       = 1000
	MaxRetries     = 100
	MaxBytes       = 64 << 20
	MaxCallBytes   = 16 << 20
	MaxConcurrency = 100_000
	MaxQueue       = 1_000_000
	MaxTime        = 60 * time.Second // service time, CPU
	MaxTimeout     = 60 * time.Second
	MaxSigma       = 5
	// MaxVisits is how many requests one request may cause at all services
	// together if every call is made and none is retried.
	MaxVisits = 100_000
)

// WithDefaults returns a deep copy with defaults filled in: one replica, HTTP/1.1,
// calls in sequence, each made always and once.
func (g Graph) WithDefaults() Graph {
	out := Graph{Services: make([]Service, len(g.Services))}
	for i, s := range g.Services {
		s.Replicas = cmp.Or(s.Replicas, 1)
		s.Protocol = cmp.Or(s.Protocol, protocol.HTTP1)
		s.Mode = cmp.Or(s.Mode, Sequence)
		if s.ServiceTime.Distribution == "" && s.ServiceTime.Mean > 0 {
			s.ServiceTime.Distribution = Fixed
		}
		s.ServiceTime.Values = slices.Clone(s.ServiceTime.Values)
		s.Failures = slices.Clone(s.Failures)
		for j := range s.Failures {
			s.Failures[j].How = cmp.Or(s.Failures[j].How, FailStatus)
		}
		s.Calls = slices.Clone(s.Calls)
		for j := range s.Calls {
			s.Calls[j].Probability = cmp.Or(s.Calls[j].Probability, 1)
			s.Calls[j].Times = cmp.Or(s.Calls[j].Times, 1)
		}
		out.Services[i] = s
	}
	return out
}

// Service returns the service of that name.
func (g Graph) Service(name string) (Service, bool) {
	i := slices.IndexFunc(g.Services, func(s Service) bool { return s.Name == name })
	if i < 0 {
		return Service{}, false
	}
	return g.Services[i], true
}

// Gateway returns the graph's gateway.
func (g Graph) Gateway() (Service, bool) {
	i := slices.IndexFunc(g.Services, func(s Service) bool { return s.Gateway })
	if i < 0 {
		return Service{}, false
	}
	return g.Services[i], true
}

// Callers returns, for each service, the names of those that call it, each
// once, in the graph's order.
func (g Graph) Callers() map[string][]string {
	callers := make(map[string][]string, len(g.Services))
	for _, s := range g.Services {
		for _, c := range s.Calls {
			if names := callers[c.To]; len(names) == 0 || names[len(names)-1] != s.Name {
				callers[c.To] = append(names, s.Name)
			}
		}
	}
	return callers
}

// Roots returns the services that no other service calls.
func (g Graph) Roots() []string {
	callers := g.Callers()
	var roots []string
	for _, s := range g.Services {
		if len(callers[s.Name]) == 0 {
			roots = append(roots, s.Name)
		}
	}
	return roots
}

// Pods is the number of replicas of all services.
func (g Graph) Pods() int {
	n := 0
	for _, s := range g.Services {
		n += s.Replicas
	}
	return n
}

// MeanOf returns the mean of the distribution, before the worker's limit of a
// minute cuts its tail.
func (t ServiceTime) MeanOf() time.Duration {
	if t.Distribution != Recorded {
		return t.Mean
	}
	sum := 0.0
	for _, v := range t.Values {
		sum += v.Seconds()
	}
	return seconds(sum / float64(max(1, len(t.Values))))
}
