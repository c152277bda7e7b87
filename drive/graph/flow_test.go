package graph_test

import (
	"math"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/drive/graph"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/testing/must"
	"pgregory.net/rapid"
)

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(1, math.Abs(a), math.Abs(b)) }

func flow(t interface {
	Helper()
	Fatal(...any)
}, g graph.Graph, l graph.Load) graph.Flow {
	if p := g.Check(); len(p) > 0 {
		t.Fatal(p)
	}
	f, err := g.Flow(l)
	must.OK(t, err)
	return f
}

func ms(n int) graph.ServiceTime {
	return graph.ServiceTime{Distribution: graph.Fixed, Mean: time.Duration(n) * time.Millisecond}
}

// TestFlow checks rates and times of a graph against values computed by hand.
func TestFlow(t *testing.T) {
	g := graph.Graph{Services: []graph.Service{
		{Name: "front", ServiceTime: ms(1), Calls: []graph.Call{{To: "a", Times: 2}, {To: "b", Probability: 0.5}}},
		{Name: "a", ServiceTime: ms(10), CPU: 20 * time.Millisecond, Calls: []graph.Call{{To: "b", Times: 3}}, Mode: graph.Parallel},
		{Name: "b", ServiceTime: ms(4)},
		{Name: "alone"},
	}}.WithDefaults()
	f := flow(t, g, graph.Load{Entry: "front", RPS: 100})
	for _, want := range []graph.ServiceFlow{
		{"front", 1, 100, 51 * time.Millisecond}, // 1 + 2 x 24 + 0.5 x 4
		{"a", 2, 200, 24 * time.Millisecond},     // 20 of CPU, then three times 4 at once
		{"b", 6.5, 650, 4 * time.Millisecond},
		{"alone", 0, 0, 0},
	} {
		if got, ok := f.Service(want.Service); !ok || !near(got.RPS, want.RPS) || !near(got.Visits, want.Visits) || got.Hold != want.Hold {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	want := []graph.EdgeFlow{{"front", "a", 0, 200, 200}, {"front", "b", 1, 50, 50}, {"a", "b", 0, 600, 600}}
	for i, e := range f.Edges {
		if e != want[i] {
			t.Errorf("edge %+v, want %+v", e, want[i])
		}
	}
	if _, ok := f.Service("nobody"); ok {
		t.Error("a service that is not there")
	}
}

// TestRetries checks the amplification of one call and along a chain.
func TestRetries(t *testing.T) {
	for _, test := range []struct {
		share   float64
		retries int
		want    float64
	}{{0, 2, 1}, {1, 2, 3}, {0.5, 2, 1.75}, {0.5, 0, 1}, {0.1, 3, 1.111}} {
		if got := graph.Amplification(test.share, test.retries); !near(got, test.want) {
			t.Errorf("share %v, %d retries: %v, want %v", test.share, test.retries, got, test.want)
		}
	}
	g := chain()
	g.Services[0].Calls[0].Retries = 1
	// Everything fails: the mesh tries every call three times, front twice.
	f := flow(t, g, graph.Load{Entry: "front", RPS: 10, FailureShare: 1, Retries: 2})
	if front, bar := f.Services[0].RPS, f.Services[1].RPS; !near(front, 30) || !near(bar, 180) || !near(f.Edges[0].Calls, 30) || !near(f.Edges[0].Attempts, 180) {
		t.Errorf("front %v, bar %v, %+v", front, bar, f.Edges)
	}
}

func TestFlowRefuses(t *testing.T) {
	for _, l := range []graph.Load{{Entry: "x"}, {Entry: "bar", RPS: -1}, {Entry: "bar", RPS: math.NaN()}, {Entry: "bar", RPS: math.Inf(1)}, {Entry: "bar", FailureShare: 2}, {Entry: "bar", Retries: -1}} {
		if _, err := chain().Flow(l); errs.Code(err) != errs.CodeUsage {
			t.Errorf("%+v: %v", l, err)
		}
	}
	g := chain()
	g.Services[1].Calls = []graph.Call{{To: "front", Probability: 1, Times: 1}}
	if _, err := g.Flow(graph.Load{Entry: "bar"}); err == nil {
		t.Error("a flow through a circle")
	}
}

// TestCapacity checks the published ten servers: 100 ms each, 100 requests per
// second from 10 clients, one server less every 10 s.
func TestCapacity(t *testing.T) {
	g := chain()
	g.Services[1].Concurrency = 1
	f := flow(t, g, graph.Load{Entry: "bar", RPS: 90})
	for removed, want := range []graph.Capacity{
		{"bar", 10, true, 100, 90, 0.9, 0},
		{"bar", 9, true, 90, 90, 1, 0},
		{"bar", 8, true, 80, 90, 1.125, 1. / 9},
	} {
		if got := f.Capacity("bar", removed); !near(got.MaxRPS, want.MaxRPS) || !near(got.Utilisation, want.Utilisation) || !near(got.Unserved, want.Unserved) || got.Replicas != want.Replicas || !got.Bounded {
			t.Errorf("%d removed: %+v, want %+v", removed, got, want)
		}
	}
	for _, removed := range []int{10, 11} {
		if got := f.Capacity("bar", removed); got.Replicas != 0 || got.Unserved != 1 || !got.Bounded {
			t.Errorf("%d removed: %+v", removed, got)
		}
	}
	if got := f.Capacity("front", 0); got.Bounded || got.Unserved != 0 {
		t.Errorf("no bound: %+v", got)
	}
	if got := f.Capacity("nobody", 0); got.Replicas != 0 {
		t.Errorf("nobody: %+v", got)
	}
}

// TestMeanOf checks the means of service times.
func TestMeanOf(t *testing.T) {
	for _, test := range []struct {
		time graph.ServiceTime
		mean time.Duration
	}{
		{graph.ServiceTime{}, 0},
		{ms(5), 5 * time.Millisecond},
		{graph.ServiceTime{Distribution: graph.Exponential, Mean: 2 * time.Second}, 2 * time.Second},
		{graph.ServiceTime{Distribution: graph.Lognormal, Mean: time.Second, Sigma: 1}, time.Second},
		{graph.ServiceTime{Distribution: graph.Recorded, Values: []time.Duration{time.Second, 3 * time.Second}}, 2 * time.Second},
		{graph.ServiceTime{Distribution: graph.Recorded}, 0},
	} {
		if mean := test.time.MeanOf(); mean != test.mean {
			t.Errorf("%+v: %v", test.time, mean)
		}
	}
}

// TestFlowAddsUp checks that a service receives what its callers send, and that
// failures and retries never reduce traffic.
func TestFlowAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := generated(t)
		for i := range g.Services {
			for j := range g.Services[i].Calls {
				c := &g.Services[i].Calls[j]
				c.Probability = rapid.Float64Range(0.01, 1).Draw(t, "probability")
				c.Retries = rapid.IntRange(0, 2).Draw(t, "retries")
			}
		}
		l := graph.Load{Entry: "s-0", RPS: rapid.Float64Range(0, 1000).Draw(t, "rps"), FailureShare: rapid.Float64Range(0, 1).Draw(t, "share"), Retries: rapid.IntRange(0, 2).Draw(t, "mesh retries")}
		f := flow(t, g, l)
		arrives := map[string]float64{"s-0": l.RPS * graph.Amplification(l.FailureShare, l.Retries)}
		for _, e := range f.Edges {
			if e.Attempts < e.Calls {
				t.Fatalf("%+v has fewer attempts than calls", e)
			}
			arrives[e.To] += e.Attempts
		}
		calm := flow(t, g, graph.Load{Entry: l.Entry, RPS: l.RPS})
		for i, s := range f.Services {
			if !near(s.RPS, arrives[s.Service]) {
				t.Fatalf("%s: %v arrive, %v were sent", s.Service, s.RPS, arrives[s.Service])
			}
			if calm.Services[i].RPS > s.RPS*(1+1e-9) {
				t.Fatalf("%s: failures made traffic less", s.Service)
			}
			if mean := g.Services[i].ServiceTime.MeanOf(); s.Hold < mean {
				t.Fatalf("%s holds %v, less than its own %v", s.Service, s.Hold, mean)
			}
		}
	})
}
