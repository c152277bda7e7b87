package graph_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/drive/graph"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/testing/must"
	"pgregory.net/rapid"
)

func generated(t *rapid.T) graph.Graph {
	spec := graph.Spec{
		Depth:  rapid.IntRange(1, 6).Draw(t, "depth"),
		FanOut: rapid.IntRange(1, 5).Draw(t, "fan-out"),
		Seed:   rapid.Uint64().Draw(t, "seed"),
		Like:   graph.Service{Replicas: 2, ServiceTime: ms(5)},
	}
	most, layer := 1, 1
	for range spec.Depth - 1 {
		layer *= spec.FanOut
		most += layer
	}
	spec.Services = rapid.IntRange(spec.Depth, min(most, 120)).Draw(t, "services")
	g, err := graph.Generate(spec)
	must.OK(t, err)
	again, _ := graph.Generate(spec)
	if !reflect.DeepEqual(g, again) {
		t.Fatal("the same spec gives another graph")
	}
	checkGenerated(t, g, spec)
	return g
}

func checkGenerated(t interface{ Fatalf(string, ...any) }, g graph.Graph, spec graph.Spec) {
	if p := g.Check(); len(p) > 0 || len(g.Services) != spec.Services {
		t.Fatalf("%d services, %v", len(g.Services), p)
	}
	reached := map[string]bool{"s-0": true}
	depth := map[string]int{"s-0": 1}
	deepest := 1
	for _, s := range g.Services { // callers come before callees
		if !reached[s.Name] {
			t.Fatalf("%s is never reached", s.Name)
		}
		if len(s.Calls) > spec.FanOut || s.Replicas != max(1, spec.Like.Replicas) {
			t.Fatalf("%s: %d calls, %d replicas", s.Name, len(s.Calls), s.Replicas)
		}
		seen := map[string]bool{}
		for _, c := range s.Calls {
			if seen[c.To] {
				t.Fatalf("%s calls %s twice", s.Name, c.To)
			}
			seen[c.To], reached[c.To] = true, true
			depth[c.To] = max(depth[c.To], depth[s.Name]+1)
			deepest = max(deepest, depth[c.To])
		}
	}
	if deepest != spec.Depth {
		t.Fatalf("depth %d, want %d", deepest, spec.Depth)
	}
	f, err := g.Flow(graph.Load{Entry: "s-0", RPS: 1})
	if err != nil {
		t.Fatalf("%v", err)
	}
	visits := 0.0
	for _, s := range f.Services {
		visits += s.Visits
	}
	if visits > 2*float64(len(g.Services)) {
		t.Fatalf("a request becomes %v at %d services", visits, len(g.Services))
	}
}

func TestGenerate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { generated(t) })
	for _, spec := range []graph.Spec{{Services: 100, Depth: 4, FanOut: 5, Seed: 1}, {Services: 2000, Depth: 20, FanOut: 3, Seed: 2}, {Services: 1, Depth: 1, FanOut: 1}, {Services: 121, Depth: 5, FanOut: 3}} {
		began := time.Now()
		g, err := graph.Generate(spec)
		must.OK(t, err)
		checkGenerated(t, g, spec)
		t.Logf("%d services with %d calls in %v", len(g.Services), calls(g), time.Since(began))
	}
	if one, _ := graph.Generate(graph.Spec{Services: 50, Depth: 4, FanOut: 4, Seed: 1}); calls(one) < 50 {
		t.Errorf("%d calls: no service has a second caller", calls(one))
	}
}

func calls(g graph.Graph) (n int) {
	for _, s := range g.Services {
		n += len(s.Calls)
	}
	return n
}

func TestGenerateRefuses(t *testing.T) {
	for _, spec := range []graph.Spec{{}, {Services: -1, Depth: 1, FanOut: 1}, {Services: 5, Depth: 6, FanOut: 1}, {Services: 5, Depth: 0, FanOut: 1}, {Services: 5, Depth: 3, FanOut: 0},
		{Services: 5, Depth: 3, FanOut: 1}, {Services: 2, Depth: 1, FanOut: 9}, {Services: graph.MaxServices + 1, Depth: 9, FanOut: 9}, {Services: 9, Depth: 3, FanOut: graph.MaxCalls + 1}} {
		if g, err := graph.Generate(spec); errs.Code(err) != errs.CodeUsage {
			t.Errorf("%+v: %v, %v", spec, g, err)
		}
	}
}

// TestLayout checks that every service has its own place, to the right of all
// its callers, and that lines pass through every layer between their ends.
func TestLayout(t *testing.T) {
	check := func(t interface{ Fatalf(string, ...any) }, g graph.Graph) graph.Layout {
		l := g.Layout()
		taken := map[string]bool{}
		for i, n := range l.Nodes {
			at := fmt.Sprint(n.X, n.Y)
			if n.Service != g.Services[i].Name || taken[at] || n.X < 0 || n.X > l.Width || n.Y < 0 || n.Y > l.Height || n.Layer >= l.Layers {
				t.Fatalf("%+v of %v x %v", n, l.Width, l.Height)
			}
			taken[at] = true
		}
		for _, line := range l.Lines {
			from, to := l.Nodes[line.From], l.Nodes[line.To]
			if to.Layer <= from.Layer {
				t.Fatalf("%+v is not right of %+v", to, from)
			}
			if len(line.Via) != to.Layer-from.Layer-1 {
				t.Fatalf("%+v passes %d layers", line, to.Layer-from.Layer-1)
			}
			for k, via := range line.Via {
				at := fmt.Sprint(via[0], via[1])
				if via[0] != float64(from.Layer+1+k)+0.5 || taken[at] {
					t.Fatalf("%+v leads over something, or outside of its layers", line)
				}
				taken[at] = true
			}
		}
		return l
	}
	rapid.Check(t, func(t *rapid.T) { check(t, generated(t)) })

	// Lines that need not cross do not.
	g := graph.Graph{Services: []graph.Service{
		{Name: "x", Calls: []graph.Call{{To: "xx"}}}, {Name: "y", Calls: []graph.Call{{To: "yy"}}}, {Name: "yy"}, {Name: "xx"},
	}}.WithDefaults()
	l := check(t, g)
	if (l.Nodes[0].Y < l.Nodes[1].Y) != (l.Nodes[3].Y < l.Nodes[2].Y) {
		t.Errorf("lines cross: %+v", l.Nodes)
	}
	if l := (graph.Graph{}).Layout(); len(l.Nodes) != 0 || l.Width != 0 {
		t.Errorf("nothing: %+v", l)
	}
}
