package sizing

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// ways makes ways of shares on which all blocks agree except for noise of mean zero, in a
// different order for each way.
func ways(shares map[string]Share, noise ...float64) map[string]Way {
	out := map[string]Way{}
	for name, s := range shares {
		w := Way{Name: name}
		for i := range noise {
			n := noise[(i+len(name))%len(noise)]
			s := s
			s.Pod = plus(s.Pod, n)
			w.Plain = append(w.Plain, s)
		}
		out[name] = w
	}
	return out
}

// proxy returns a proxy that a request passes once, with linear use.
func proxy(idle, each float64) Proxy {
	return Proxy{Curve: Curve{{0, idle}, {1, idle + each}}, Passes: 1}
}

// plus returns a proxy that uses more, regardless of load.
func plus(p Proxy, use float64) Proxy {
	if p.Curve == nil {
		return Proxy{Curve: Level(use)}
	}
	return Proxy{Curve: p.Curve.plus(1, Level(use), 1), Passes: p.Passes}
}

var noise = []float64{-1e-4, 2e-4, -1e-4, 0, 0}

// One sidecar per pod at 5 mCPU and 400 us per request, against 40 mCPU per node and 150 us.
var measured = map[string]Share{"sidecars": {Pod: proxy(0.005, 400e-6)}, "ambient": {Node: proxy(0.04, 150e-6)}}

func TestWhatAMeshTakes(t *testing.T) {
	w := ways(measured, noise...)
	m := Mesh{Pods: 100, Nodes: 10, RPS: 1000}
	near(t, "sidecars", mean(w["sidecars"].At(m)), 0.5+0.4)
	near(t, "ambient", mean(w["ambient"].At(m)), 0.4+0.15)
	e := Compare(w["sidecars"], w["ambient"], m)
	near(t, "difference", e.Value, 0.35)
	if Sign(e) != 1 || Sign(Compare(w["ambient"], w["sidecars"], m)) != -1 {
		t.Errorf("the order of %+v is not known", e)
	}
}

// The cost of two things together is the sum of their costs, in every block and any mesh,
// including requests through waypoints. A block that lacks one of them has no price.
func TestTogether(t *testing.T) {
	bent := Proxy{Curve: CurveOf([]Knot{{20, 0.02}, {200, 0.06}, {1000, 0.1}}), Passes: 1}
	cpu := Way{Plain: []Share{{Pod: bent, Node: proxy(0.04, 400e-6), Agent: 0.001}, {Node: Proxy{Curve: Unmeasured(), Passes: 1}}},
		Through: []Share{{Pod: bent, Node: proxy(0.05, 400e-6), Waypoint: proxy(0.03, 500e-6), Agent: 0.001}, {}}}
	memory := Way{Plain: []Share{{Pod: proxy(60e6, 0), Node: proxy(15e6, 1000), Agent: 80e6}, {Node: proxy(15e6, 0)}},
		Through: []Share{{Pod: proxy(60e6, 0), Node: proxy(16e6, 2000), Waypoint: proxy(70e6, 0), Agent: 80e6}, {}}}
	var got []float64
	for _, rps := range []float64{0, 1000, 5000, 300_000} {
		m := Mesh{Pods: 100, Nodes: 10, RPS: rps, L7: 0.2, Waypoints: 4}
		got = Together(cpu, 40, memory, 4e-9).At(m)
		near(t, "price", got[0], 40*cpu.At(m)[0]+4e-9*memory.At(m)[0])
	}
	if !math.IsNaN(got[1]) {
		t.Errorf("a block without CPU costs %g", got[1])
	}
	if w := Together(Way{Plain: cpu.Plain}, 40, Way{Plain: memory.Plain}, 4e-9); w.Through != nil {
		t.Errorf("a way without waypoints has %v through them", w.Through)
	}
}

// A fifth of the requests go through waypoints: four fifths of one price and a fifth of the
// other, plus the waypoints themselves.
func TestMixed(t *testing.T) {
	w := Way{Plain: []Share{{Node: proxy(0.04, 100e-6)}}, Through: []Share{{Node: proxy(0.05, 200e-6), Waypoint: proxy(0.03, 400e-6)}}}
	got := w.At(Mesh{Pods: 100, Nodes: 10, RPS: 1000, L7: 0.2, Waypoints: 4})[0]
	near(t, "mixed", got, 10*(0.8*0.04+0.2*0.05)+4*0.03+0.8*0.1+0.2*0.6)
	// Without waypoints there is no idle use of them.
	got = w.At(Mesh{Pods: 100, Nodes: 10, RPS: 1000, L7: 0.2})[0]
	near(t, "no waypoint", got, 10*(0.8*0.04+0.2*0.05)+0.8*0.1+0.2*0.6)
}

// Borders lie where arithmetic puts them.
func TestBorders(t *testing.T) {
	w := ways(measured, noise...)
	few := Mesh{Pods: 100, Nodes: 50, RPS: 1000}
	// 100 x 0.005 + x*100*400e-6 = 50 x 0.04 + x*100*150e-6 at 60 per second and pod.
	b := Rate(200).Border(w["sidecars"], w["ambient"], few)
	if b.Outcome != Lies || b.First != -1 || b.Last != 1 || !(b.From < b.At && b.At < b.To) {
		t.Errorf("%+v", b)
	}
	near(t, "rate", b.At, 60)
	// 0.5 + 0.4 = 100/x*0.04 + 0.15 at 100*0.04/0.75 pods per node.
	b = PodsOnNode(110).Border(w["sidecars"], w["ambient"], few)
	near(t, "pods", b.At, 4/0.75)
	if b.Outcome != Lies || b.First != -1 || b.Last != 1 {
		t.Errorf("%+v", b)
	}
	dense := Mesh{Pods: 100, Nodes: 2, RPS: 1000}
	if b := Rate(200).Border(w["sidecars"], w["ambient"], dense); b.Outcome != None || b.First != 1 || !math.IsNaN(b.At) {
		t.Errorf("one is dearer at every rate: %+v", b)
	}
	waypoints := w["ambient"]
	for range noise {
		waypoints.Through = append(waypoints.Through, Share{Node: proxy(0.04, 150e-6), Waypoint: proxy(0.02, 750e-6)})
	}
	// 0.5 + 0.4 = 2*0.04 + 0.02 + (1-x)*0.15 + x*0.9.
	dense.Waypoints = 1
	b = L7(1).Border(w["sidecars"], waypoints, dense)
	near(t, "share of L7", b.At, 0.65/0.75)
	if b.Outcome != Lies || b.First != 1 || b.Last != -1 {
		t.Errorf("%+v", b)
	}
}

// One of two ways may use less at both ends of an axis and more in between, if the first
// requests of a second cost most.
func TestBordersOfBentWays(t *testing.T) {
	bent := ways(map[string]Share{"bent": {Pod: Proxy{Curve: CurveOf([]Knot{{0, 0.002}, {20, 0.04}, {200, 0.06}}), Passes: 1}}}, noise...)["bent"]
	line := ways(map[string]Share{"straight": {Pod: proxy(0.01, 500e-6)}}, noise...)["straight"]
	m := Mesh{Pods: 100, Nodes: 10}
	got := Rate(200).Border(bent, line, m)
	// 0.002 + 0.0019 x = 0.01 + 0.0005 x, and 0.04 + (x-20)/9000 = 0.01 + 0.0005 x.
	if low, high := 0.008/0.0014, (0.03-20.0/9000)/(0.0005-1.0/9000); got.Outcome != Between || got.First != -1 || got.Last != -1 || !(got.From < low && low < got.From+1 && high < got.To && got.To < high+2) {
		t.Errorf("%+v, want borders at %g and %g", got, low, high)
	}
	if back := Rate(200).Border(line, bent, m); back.Outcome != Between || back.First != 1 || math.Abs(back.From-got.From) > 1e-6 || math.Abs(back.To-got.To) > 1e-6 {
		t.Errorf("the other way round: %+v", back)
	}
	if got := Rate(50).Border(bent, line, m); got.Outcome != Lies || got.First != -1 || got.Last != 1 {
		t.Errorf("up to 50: %+v", got)
	}
}

// If the blocks disagree, the result is unknown; as far as they agree, it is known.
func TestBordersThatAreNotKnown(t *testing.T) {
	wide := ways(measured, -0.5, 0.5, -0.4, 0.4, 0)
	if b := Rate(200).Border(wide["sidecars"], ways(measured, noise...)["ambient"], Mesh{Pods: 100, Nodes: 50}); b.Outcome != Unknown {
		t.Errorf("%+v", b)
	}
	one := ways(measured, 0)
	if b := Rate(200).Border(one["sidecars"], one["ambient"], Mesh{Pods: 100, Nodes: 50}); b.Outcome != Unknown {
		t.Errorf("one block: %+v", b)
	}
	// The uncertainty of a sidecar counts for all of its pods; requests decide.
	some := ways(measured, -0.01, 0.01, -0.008, 0.008, 0)
	b := Rate(200).Border(some["sidecars"], ways(measured, noise...)["ambient"], Mesh{Pods: 100, Nodes: 30})
	if b.Outcome != Beyond || b.First != 0 || b.Last != 1 || !(b.From > b.At) {
		t.Errorf("%+v", b)
	}
	b = Rate(60).Border(ways(measured, noise...)["ambient"], some["sidecars"], Mesh{Pods: 100, Nodes: 400})
	if b.Outcome != None || b.First != 1 {
		t.Errorf("%+v", b)
	}
	gone := ways(measured, 0, math.NaN(), math.NaN())
	if e := Compare(gone["sidecars"], gone["ambient"], Mesh{Pods: 1, Nodes: 1}); Sign(e) != 0 {
		t.Errorf("one of three blocks: %+v", e)
	}
}

// The interval at either end of a border touches zero, the signs next to it differ, and
// swapping the ways moves nothing.
func TestBorderProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) Way {
			var w Way
			pod, node, request := rapid.Float64Range(0, 0.02).Draw(t, name+" pod"), rapid.Float64Range(0, 0.1).Draw(t, name+" node"), rapid.Float64Range(1e-5, 1e-3).Draw(t, name+" request")
			bend := rapid.Float64Range(1, 3).Draw(t, name+" bend")
			for i := range 5 {
				n := rapid.Float64Range(-0.1, 0.1).Draw(t, name+" noise"+string(rune('0'+i)))
				each := request * (1 + n/2)
				knots := []Knot{{0, pod * (1 + n)}, {10, pod*(1+n) + 10*each*bend}, {100, pod*(1+n) + 10*each*bend + 90*each}}
				w.Plain = append(w.Plain, Share{Pod: Proxy{Curve: CurveOf(knots), Passes: 1}, Node: Proxy{Curve: Level(node * (1 - n))}})
			}
			return w
		}
		a, b := draw("a"), draw("b")
		m := Mesh{Pods: 100, Nodes: rapid.Float64Range(1, 100).Draw(t, "nodes"), RPS: 1000}
		for _, axis := range []Axis{Rate(500), PodsOnNode(110)} {
			got, back := axis.Border(a, b, m), axis.Border(b, a, m)
			if got.Outcome != back.Outcome || got.First != -back.First || got.Last != -back.Last {
				t.Fatalf("%s: %+v one way, %+v the other", axis.Name, got, back)
			}
			if got.Outcome != Lies {
				continue
			}
			about := 1e-9 * axis.High
			if !(axis.Low <= got.From && got.From <= got.At+about && got.At <= got.To+about && got.To <= axis.High) || got.First != -got.Last {
				t.Fatalf("%s: %+v", axis.Name, got)
			}
			for _, end := range []float64{got.From, got.To} {
				e := Compare(a, b, axis.Set(m, end))
				if gap := math.Min(math.Abs(e.Low), math.Abs(e.High)); gap > 1e-6*math.Max(1, math.Abs(e.Value)) {
					t.Fatalf("%s: at %g the interval is %g to %g", axis.Name, end, e.Low, e.High)
				}
			}
		}
	})
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if !(math.Abs(got-want) <= 1e-3*math.Abs(want)) {
		t.Errorf("%s: %g, want %g", what, got, want)
	}
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}
