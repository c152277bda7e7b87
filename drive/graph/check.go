package graph

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/study/protocol"
)

// Problem is a problem of a graph.
type Problem struct {
	// Path names the field: "services.front.calls[0].to", or "services[3].name"
	// if the name itself is wrong.
	Path string
	Msg  string
	Hint string // "" if the message says what to do
}

func (p Problem) Error() string {
	return p.Path + ": " + p.Msg
}

// Problems lists problems in the graph's order.
type Problems []Problem

func (p Problems) Error() string {
	lines := make([]string, 0, 11)
	for i, one := range p {
		if i == 10 {
			lines = append(lines, fmt.Sprintf("... and %d more", len(p)-10))
			break
		}
		lines = append(lines, one.Error())
	}
	return strings.Join(lines, "\n")
}

// Err returns the problems as an error with exit code 2, nil for none.
func (p Problems) Err() error {
	if len(p) == 0 {
		return nil
	}
	err := errs.WithCode(p, errs.CodeUsage)
	if len(p) == 1 && p[0].Hint != "" {
		err = errs.WithHint(err, "%s", p[0].Hint)
	}
	return err
}

// name is what Kubernetes allows for a Service (RFC 1035 label).
var name = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)

// Check finds the problems of a graph with defaults filled in.
func (g Graph) Check() Problems {
	c := &checker{graph: g, index: make(map[string]int, len(g.Services))}
	switch n := len(g.Services); {
	case n == 0:
		c.fail("services", "add at least one", "the graph has no services")
	case n > MaxServices:
		c.fail("services", "", "%d services are too many, at most %d are possible", n, MaxServices)
		return c.problems
	}
	for i, s := range g.Services {
		switch first, twice := c.index[s.Name]; {
		case !name.MatchString(s.Name):
			c.fail(fmt.Sprintf("services[%d].name", i), "use at most 63 lower-case letters, digits and dashes, starting with a letter", "invalid service name %q", clip(s.Name))
		case twice:
			c.fail(fmt.Sprintf("services[%d].name", i), fmt.Sprintf("services[%d] has the same name", first), "%q is the name of another service", s.Name)
		default:
			c.index[s.Name] = i
		}
	}
	for _, s := range g.Services {
		c.service(s)
	}
	if pods := g.Pods(); pods > MaxPods {
		c.fail("services", "", "%d replicas in all are too many, at most %d are possible", pods, MaxPods)
	}
	if len(c.problems) > 0 {
		return c.problems
	}
	if c.cycles(); len(c.problems) == 0 {
		c.visits()
	}
	return c.problems
}

type checker struct {
	graph    Graph
	index    map[string]int
	problems Problems
}

func (c *checker) fail(path, hint, format string, args ...any) {
	c.problems = append(c.problems, Problem{Path: path, Msg: fmt.Sprintf(format, args...), Hint: hint})
}

func clip(s string) string {
	if runes := []rune(s); len(runes) > 80 {
		return string(runes[:80]) + "..."
	}
	return s
}

// within checks that value is in low..high.
func within[N int | int64 | float64](c *checker, path string, value, low, high N) {
	switch {
	case value < 0:
		c.fail(path, "", "%v is negative", value)
	case !(value >= low && value <= high): // also NaN
		c.fail(path, "", "%v is out of range, %v to %v is possible", value, low, high)
	}
}

func (c *checker) time(path string, value, high time.Duration) {
	switch {
	case value < 0:
		c.fail(path, "", "%s is negative", value)
	case value > high:
		c.fail(path, "", "%s is too long, at most %s is possible", value, high)
	}
}

func (c *checker) service(s Service) {
	at := "services." + clip(s.Name)
	within(c, at+".replicas", s.Replicas, 1, MaxReplicas)
	within(c, at+".response", s.ResponseBytes, 0, MaxBytes)
	within(c, at+".concurrency", s.Concurrency, 0, MaxConcurrency)
	within(c, at+".queue", s.Queue, 0, MaxQueue)
	c.time(at+".cpu", s.CPU, MaxTime)
	if s.Queue > 0 && s.Concurrency == 0 {
		c.fail(at+".queue", "set concurrency as well", "without a limit on concurrency, no request waits in a queue")
	}
	if !protocol.Of(s.Protocol).Calls {
		c.fail(at+".protocol", protocol.List(protocol.Names(protocol.Calls)), "unknown protocol %q", clip(s.Protocol))
	}
	if s.Mode != Sequence && s.Mode != Parallel {
		c.fail(at+".mode", "sequence or parallel", "unknown mode %q", clip(s.Mode))
	}
	c.serviceTime(at+".service_time", s.ServiceTime)
	total := 0.0
	for i, f := range s.Failures {
		path := fmt.Sprintf("%s.failures[%d]", at, i)
		within(c, path+".share", f.Share, 0, 1)
		switch {
		case f.How == FailStatus:
			within(c, path+".status", f.Status, 400, 599)
		case !slices.Contains([]string{FailReset, FailHang, FailSlowBody, FailCrash}, f.How):
			c.fail(path+".how", "status, reset, hang, slow-body or crash", "unknown failure %q", clip(f.How))
		case f.Status != 0:
			c.fail(path+".status", "", "only failures with how: status have a status")
		}
		total += f.Share
	}
	if total > 1+1e-9 {
		c.fail(at+".failures", "", "the shares add up to %v, which is more than 100%%", total)
	}
	if len(s.Calls) > MaxCalls {
		c.fail(at+".calls", "", "%d calls are too many, at most %d are possible", len(s.Calls), MaxCalls)
		return
	}
	for i, call := range s.Calls {
		c.call(fmt.Sprintf("%s.calls[%d]", at, i), s, call)
	}
	if s.Gateway {
		c.gateway(at, s)
	}
}

// gateway checks a service whose pods have no program.
func (c *checker) gateway(at string, s Service) {
	for _, f := range []struct {
		field string
		set   bool
	}{
		{"sidecar", !s.Sidecar}, {"protocol", s.Protocol != protocol.HTTP1}, {"response", s.ResponseBytes > 0}, {"service_time", s.ServiceTime.Distribution != ""},
		{"concurrency", s.Concurrency > 0}, {"queue", s.Queue > 0}, {"cpu", s.CPU > 0}, {"failures", len(s.Failures) > 0}, {"mode", s.Mode != Sequence},
	} {
		if f.set {
			c.fail(at+"."+f.field, "leave it out", "a gateway has only replicas and a call: its pods are proxies without a program")
		}
	}
	if len(s.Calls) != 1 {
		c.fail(at+".calls", "as calls: [{to: SERVICE}]", "a gateway sends all requests to one service, not %d", len(s.Calls))
		return
	}
	if call := s.Calls[0]; call != (Call{To: call.To, Probability: 1, Times: 1}) {
		c.fail(at+".calls[0]", "as calls: [{to: "+clip(call.To)+"}]", "a gateway sends each request on once, as it is")
	}
	for _, other := range c.graph.Services {
		switch {
		case other.Gateway && other.Name != s.Name:
			c.fail(at+".gateway", "", "%s is a gateway too, and requests enter through one", clip(other.Name))
		case slices.ContainsFunc(other.Calls, func(call Call) bool { return call.To == s.Name }):
			c.fail(at+".gateway", "let it call the service behind the gateway", "%s calls the gateway, through which only clients' requests enter", clip(other.Name))
		}
	}
}

func (c *checker) call(at string, s Service, call Call) {
	if _, ok := c.index[call.To]; !ok {
		c.fail(at+".to", c.services(), "there is no service %q", clip(call.To))
	}
	c.time(at+".timeout", call.Timeout, MaxTimeout)
	within(c, at+".retries", call.Retries, 0, MaxRetries)
	within(c, at+".times", call.Times, 1, MaxTimes)
	within(c, at+".request", call.RequestBytes, 0, MaxCallBytes)
	if call.Probability >= 0 && !(call.Probability > 0 && call.Probability <= 1) {
		c.fail(at+".probability", "leave the call out if it is never made", "%v is out of range, it must be above 0 and at most 1", call.Probability)
	} else {
		within(c, at+".probability", call.Probability, 0, 1)
	}
}

// services lists the services that a call could name.
func (c *checker) services() string {
	var names []string
	for _, s := range c.graph.Services {
		if len(names) == 10 {
			names = append(names, "...")
			break
		}
		names = append(names, s.Name)
	}
	return "there are: " + strings.Join(names, ", ")
}

func (c *checker) serviceTime(at string, t ServiceTime) {
	c.time(at+".mean", t.Mean, MaxTime)
	if len(t.Values) > 0 && t.Distribution != Recorded {
		c.fail(at+".values", "", "only recorded times have values")
	}
	if t.Sigma != 0 && t.Distribution != Lognormal {
		c.fail(at+".sigma", "", "only lognormal has a sigma")
	}
	switch t.Distribution {
	case "", Fixed:
		if t.Distribution == "" && t.Mean != 0 {
			c.fail(at+".distribution", "fixed, exponential, lognormal or recorded", "a mean without a distribution")
		}
	case Exponential, Lognormal:
		if t.Mean == 0 {
			c.fail(at+".mean", "", "%s needs a mean above 0", t.Distribution)
		}
		if t.Distribution == Lognormal && !(t.Sigma > 0 && t.Sigma <= MaxSigma) {
			c.fail(at+".sigma", "", "%v is out of range, it must be above 0 and at most %d", t.Sigma, MaxSigma)
		}
	case Recorded:
		if len(t.Values) == 0 {
			c.fail(at+".values", "", "recorded times have values")
		}
		for i, v := range t.Values {
			c.time(fmt.Sprintf("%s.values[%d]", at, i), v, MaxTime)
		}
	default:
		c.fail(at+".distribution", "fixed, exponential, lognormal or recorded", "unknown distribution %q", clip(t.Distribution))
	}
}

// cycles finds calls that lead back to their origin. Every call that closes a
// cycle is a separate problem.
func (c *checker) cycles() {
	const fresh, open, done = 0, 1, 2
	state := make([]int, len(c.graph.Services))
	type frame struct{ service, next int }
	for start := range c.graph.Services {
		if state[start] != fresh {
			continue
		}
		state[start] = open
		path := []frame{{start, 0}}
		for len(path) > 0 {
			top := &path[len(path)-1]
			s := c.graph.Services[top.service]
			if top.next == len(s.Calls) {
				state[top.service] = done
				path = path[:len(path)-1]
				continue
			}
			call := top.next
			top.next++
			to := c.index[s.Calls[call].To]
			switch state[to] {
			case fresh:
				state[to] = open
				path = append(path, frame{to, 0})
			case open:
				var names []string
				for i := slices.IndexFunc(path, func(f frame) bool { return f.service == to }); i < len(path); i++ {
					names = append(names, c.graph.Services[path[i].service].Name)
				}
				names = append(names, c.graph.Services[to].Name)
				if n := len(names); n > 12 {
					names = append(append(names[:6:6], "..."), names[n-5:]...)
				}
				c.fail(fmt.Sprintf("services.%s.calls[%d].to", s.Name, call), "remove one of these calls: a request would never end", "calls form a cycle: %s", strings.Join(names, " -> "))
			}
		}
	}
}

// visits rejects graphs in which one request causes too many others.
func (c *checker) visits() {
	order := c.graph.order()
	below := make([]float64, len(c.graph.Services)) // requests that one to the service causes, including itself
	for i := len(order) - 1; i >= 0; i-- {
		s := c.graph.Services[order[i]]
		below[order[i]] = 1
		for _, call := range s.Calls {
			below[order[i]] += float64(call.Times) * below[c.index[call.To]]
		}
		if n := below[order[i]]; n > MaxVisits || math.IsNaN(n) {
			c.fail("services."+s.Name+".calls", "use fewer calls or lower times", "one request to it would cause more than %d requests in total", MaxVisits)
			return
		}
	}
}

// order returns the services' indices with callers before callees. The graph must
// have passed its check, except for cycles.
func (g Graph) order() []int {
	index := g.index()
	callers := make([]int, len(g.Services))
	for _, s := range g.Services {
		for _, call := range s.Calls {
			callers[index[call.To]]++
		}
	}
	order := make([]int, 0, len(g.Services))
	for i, n := range callers {
		if n == 0 {
			order = append(order, i)
		}
	}
	for at := 0; at < len(order); at++ {
		for _, call := range g.Services[order[at]].Calls {
			to := index[call.To]
			if callers[to]--; callers[to] == 0 {
				order = append(order, to)
			}
		}
	}
	return order
}

func (g Graph) index() map[string]int {
	index := make(map[string]int, len(g.Services))
	for i, s := range g.Services {
		index[s.Name] = i
	}
	return index
}
