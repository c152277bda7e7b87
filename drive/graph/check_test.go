package graph_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/drive/graph"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/study/protocol"
)

// chain is front -> bar, with ten replicas of bar as in the published
// simulator: 100 ms per request.
func chain() graph.Graph {
	return graph.Graph{Services: []graph.Service{
		{Name: "front", Replicas: 2, Calls: []graph.Call{{To: "bar"}}},
		{Name: "bar", Replicas: 10, Concurrency: 10, Queue: 100, ServiceTime: graph.ServiceTime{Mean: 100 * time.Millisecond}},
	}}.WithDefaults()
}

func TestCheck(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*graph.Graph)
		path   string // of the only problem; "" for none
	}{
		{"good", func(g *graph.Graph) {}, ""},
		{"everything set", func(g *graph.Graph) {
			g.Services[0] = graph.Service{Name: "front", Replicas: 3, Sidecar: true, Protocol: protocol.GRPC, ResponseBytes: 1024, CPU: time.Millisecond, Concurrency: 5, Queue: 7,
				ServiceTime: graph.ServiceTime{Distribution: graph.Lognormal, Mean: time.Second, Sigma: 0.5}, Failures: []graph.Failure{{Share: 0.5, How: graph.FailStatus, Status: 503}}, Mode: graph.Parallel,
				Calls: []graph.Call{{To: "bar", RequestBytes: 9, Timeout: time.Second, Retries: 2, Probability: 0.25, Times: 3}}}
		}, ""},
		{"no services", func(g *graph.Graph) { g.Services = nil }, "services"},
		{"too many services", func(g *graph.Graph) { g.Services = make([]graph.Service, graph.MaxServices+1) }, "services"},
		{"too many pods", func(g *graph.Graph) {
			for i := range 30 {
				g.Services = append(g.Services, graph.Service{Name: "x" + strings.Repeat("y", i), Replicas: graph.MaxReplicas})
			}
			*g = g.WithDefaults()
		}, "services"},
		{"no name", func(g *graph.Graph) { g.Services[1].Name = ""; g.Services[0].Calls = nil }, "services[1].name"},
		{"a name no Service can have", func(g *graph.Graph) { g.Services[0].Name = "Front_1" }, "services[0].name"},
		{"a name twice", func(g *graph.Graph) { g.Services[1].Name = "front"; g.Services[0].Calls = nil }, "services[1].name"},
		{"an unknown service", func(g *graph.Graph) { g.Services[0].Calls[0].To = "baz" }, "services.front.calls[0].to"},
		{"itself", func(g *graph.Graph) { g.Services[0].Calls[0].To = "front" }, "services.front.calls[0].to"},
		{"a circle", func(g *graph.Graph) { g.Services[1].Calls = []graph.Call{{To: "front", Probability: 1, Times: 1}} }, "services.bar.calls[0].to"},
		{"negative replicas", func(g *graph.Graph) { g.Services[0].Replicas = -1 }, "services.front.replicas"},
		{"too many replicas", func(g *graph.Graph) { g.Services[0].Replicas = 1001 }, "services.front.replicas"},
		{"negative time", func(g *graph.Graph) { g.Services[1].ServiceTime.Mean = -1 }, "services.bar.service_time.mean"},
		{"an age", func(g *graph.Graph) { g.Services[1].ServiceTime.Mean = time.Hour }, "services.bar.service_time.mean"},
		{"a distribution nobody knows", func(g *graph.Graph) { g.Services[1].ServiceTime.Distribution = "cauchy" }, "services.bar.service_time.distribution"},
		{"lognormal without sigma", func(g *graph.Graph) { g.Services[1].ServiceTime.Distribution = graph.Lognormal }, "services.bar.service_time.sigma"},
		{"sigma for nothing", func(g *graph.Graph) { g.Services[1].ServiceTime.Sigma = 1 }, "services.bar.service_time.sigma"},
		{"exponential without mean", func(g *graph.Graph) {
			g.Services[1].ServiceTime = graph.ServiceTime{Distribution: graph.Exponential}
		}, "services.bar.service_time.mean"},
		{"recorded without values", func(g *graph.Graph) { g.Services[1].ServiceTime = graph.ServiceTime{Distribution: graph.Recorded} }, "services.bar.service_time.values"},
		{"a recorded time below 0", func(g *graph.Graph) {
			g.Services[1].ServiceTime = graph.ServiceTime{Distribution: graph.Recorded, Values: []time.Duration{1, -1}}
		}, "services.bar.service_time.values[1]"},
		{"values for nothing", func(g *graph.Graph) { g.Services[1].ServiceTime.Values = []time.Duration{1} }, "services.bar.service_time.values"},
		{"an unknown protocol", func(g *graph.Graph) { g.Services[0].Protocol = "smtp" }, "services.front.protocol"},
		{"an unknown mode", func(g *graph.Graph) { g.Services[0].Mode = "some" }, "services.front.mode"},
		{"a negative size", func(g *graph.Graph) { g.Services[0].ResponseBytes = -1 }, "services.front.response"},
		{"a queue before nothing", func(g *graph.Graph) { g.Services[0].Queue = 5 }, "services.front.queue"},
		{"negative CPU", func(g *graph.Graph) { g.Services[0].CPU = -1 }, "services.front.cpu"},
		{"more failures than all", func(g *graph.Graph) {
			g.Services[0].Failures = []graph.Failure{{Share: 0.7, How: graph.FailStatus, Status: 500}, {Share: 0.7, How: graph.FailStatus, Status: 503}}
		}, "services.front.failures"},
		{"a failure that is none", func(g *graph.Graph) {
			g.Services[0].Failures = []graph.Failure{{Share: 0.7, How: graph.FailStatus, Status: 200}}
		}, "services.front.failures[0].status"},
		{"a call never made", func(g *graph.Graph) { g.Services[0].Calls[0].Probability = 0 }, "services.front.calls[0].probability"},
		{"a negative probability", func(g *graph.Graph) { g.Services[0].Calls[0].Probability = -0.5 }, "services.front.calls[0].probability"},
		{"no probability at all", func(g *graph.Graph) { g.Services[0].Calls[0].Probability = math.NaN() }, "services.front.calls[0].probability"},
		{"times 0", func(g *graph.Graph) { g.Services[0].Calls[0].Times = 0 }, "services.front.calls[0].times"},
		{"negative retries", func(g *graph.Graph) { g.Services[0].Calls[0].Retries = -1 }, "services.front.calls[0].retries"},
		{"a negative timeout", func(g *graph.Graph) { g.Services[0].Calls[0].Timeout = -1 }, "services.front.calls[0].timeout"},
		{"too many calls", func(g *graph.Graph) { g.Services[0].Calls = make([]graph.Call, graph.MaxCalls+1) }, "services.front.calls"},
		{"a flood", func(g *graph.Graph) {
			g.Services[0].Calls[0].Times = 1000
			g.Services[1].Calls = []graph.Call{{To: "deep", Probability: 1, Times: 1000}}
			g.Services = append(g.Services, graph.Service{Name: "deep"})
			*g = g.WithDefaults()
		}, "services.front.calls"},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := chain()
			test.change(&g)
			problems := g.Check()
			if test.path == "" {
				if len(problems) > 0 {
					t.Errorf("%v", problems)
				}
				return
			}
			if len(problems) != 1 || problems[0].Path != test.path {
				t.Fatalf("%q, want one at %s", problems, test.path)
			}
			err := problems.Err()
			if errs.Code(err) != errs.CodeUsage || errs.Hint(err) != problems[0].Hint {
				t.Errorf("code %d, hint %q", errs.Code(err), errs.Hint(err))
			}
			if again := (graph.Problems)(nil); !errors.As(err, &again) || again[0] != problems[0] {
				t.Errorf("the problems are lost in %v", err)
			}
		})
	}
}

func TestLookups(t *testing.T) {
	g := chain()
	g.Services[0].Calls = append(g.Services[0].Calls, graph.Call{To: "bar"})
	if roots := g.Roots(); len(roots) != 1 || roots[0] != "front" {
		t.Errorf("roots %v", roots)
	}
	if callers := g.Callers(); len(callers) != 1 || len(callers["bar"]) != 1 {
		t.Errorf("callers %v", callers)
	}
	if s, ok := g.Service("bar"); !ok || s.Replicas != 10 {
		t.Errorf("bar: %+v", s)
	}
	if _, ok := g.Service("baz"); ok || g.Pods() != 12 {
		t.Errorf("%d pods", g.Pods())
	}
}

func TestWithDefaultsCopies(t *testing.T) {
	g := chain()
	g.Services[1].Failures = []graph.Failure{{Share: 0.5, How: graph.FailStatus, Status: 500}}
	g.Services[1].ServiceTime.Values = []time.Duration{5}
	other := g.WithDefaults()
	other.Services[0].Calls[0].To, other.Services[1].Failures[0].Share, other.Services[1].ServiceTime.Values[0] = "x", 1, 6
	if g.Services[0].Calls[0].To != "bar" || g.Services[1].Failures[0].Share != 0.5 || g.Services[1].ServiceTime.Values[0] != 5 {
		t.Errorf("%+v", g)
	}
}

// A gateway has replicas and one plain call, and nothing calls it.
func TestGateway(t *testing.T) {
	edge := func(change func(*graph.Service)) graph.Service {
		s := graph.Service{Name: "edge", Gateway: true, Sidecar: true, Replicas: 3, Calls: []graph.Call{{To: "front"}}}
		change(&s)
		return s
	}
	for path, change := range map[string]func(*graph.Service){
		"":                           func(*graph.Service) {},
		"services.edge.sidecar":      func(s *graph.Service) { s.Sidecar = false },
		"services.edge.protocol":     func(s *graph.Service) { s.Protocol = protocol.HTTP2 },
		"services.edge.service_time": func(s *graph.Service) { s.ServiceTime.Mean = time.Millisecond },
		"services.edge.concurrency":  func(s *graph.Service) { s.Concurrency = 1 },
		"services.edge.failures":     func(s *graph.Service) { s.Failures = []graph.Failure{{Share: 1, How: graph.FailReset}} },
		"services.edge.calls":        func(s *graph.Service) { s.Calls = append(s.Calls, graph.Call{To: "bar"}) },
		"services.edge.calls[0]":     func(s *graph.Service) { s.Calls[0].Timeout = time.Second },
		"services.edge.mode":         func(s *graph.Service) { s.Mode = graph.Parallel },
		"services.edge.response":     func(s *graph.Service) { s.ResponseBytes = 1 },
		"services.front.calls[0].to": func(s *graph.Service) { s.Name = "bare" }, // see below
	} {
		g := chain()
		g.Services = append(g.Services, edge(change))
		if path == "services.front.calls[0].to" {
			g.Services[2].Name, g.Services[0].Calls[0].To = "edge", "edge"
			path = "services.edge.gateway"
		}
		problems := g.WithDefaults().Check()
		switch {
		case path == "" && len(problems) > 0, path != "" && (len(problems) != 1 || problems[0].Path != path || problems[0].Hint == ""):
			t.Errorf("%q, want one at %q", problems, path)
		}
	}
	g := chain()
	g.Services = append(g.Services, edge(func(*graph.Service) {}), edge(func(s *graph.Service) { s.Name = "second" }))
	if problems := g.WithDefaults().Check(); len(problems) != 2 {
		t.Errorf("two gateways: %q", problems)
	}
	if one, ok := g.Gateway(); !ok || one.Name != "edge" {
		t.Errorf("%+v", one)
	}
}
