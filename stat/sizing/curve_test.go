package sizing

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// A curve passes through the measured points, is linear in between, and extrapolates beyond them.
func TestCurve(t *testing.T) {
	c := CurveOf([]Knot{{1000, 0.4}, {20, 0.02}, {200, 0.11}, {210, 0.13}})
	for rate, want := range map[float64]float64{20: 0.02, 205: 0.12, 1000: 0.4, 112.5: 0.07, 0: 0.02 - 20*0.1/185, 1795: 0.68} {
		near(t, "at", c.At(rate), want)
	}
	near(t, "each of the first", c.Each(0), 0.1/185)
	near(t, "each of the last", c.Each(5000), 0.28/795)
	narrow := CurveOf([]Knot{{1200, 0.5}, {1000, 0.4}, {1100, 0.6}})
	near(t, "through rates that are all close", narrow.At(2000), 0.9)
	if c := CurveOf([]Knot{{1000, 0.4}, {1000, 0.6}}); len(c) != 1 || c.At(7) != 0.5 {
		t.Errorf("of one rate: %v", c)
	}
	if c := Level(3); c.At(0) != 3 || c.At(1e6) != 3 || c.Each(7) != 0 {
		t.Errorf("a level curve: %g, %g", c.At(0), c.Each(7))
	}
	if c := Curve(nil); c.At(5) != 0 || c.Each(5) != 0 {
		t.Error("no proxy takes something")
	}
	if c := Unmeasured(); !math.IsNaN(c.At(5)) || !math.IsNaN(c.Each(5)) {
		t.Error("what was not measured is known")
	}
}

// With nonlinear curves a mesh has the use measured at the rates of its proxies, and a request
// adds its part of the use beyond that without requests.
func TestBentWay(t *testing.T) {
	sidecar := Proxy{Curve: CurveOf([]Knot{{0, 0.003}, {100, 0.08}, {1000, 0.35}}), Passes: 2}
	w := Way{Plain: []Share{{Pod: sidecar, Agent: 0.001}}}
	m := Mesh{Pods: 1000, Nodes: 50, RPS: 50_000} // 100 at each sidecar
	near(t, "a mesh", w.At(m)[0], 1000*0.08+50*0.001)
	near(t, "each", w.Plain[0].Each(m), 2*(0.08-0.003)/100)
	m.RPS = 0
	near(t, "idle", w.At(m)[0], 1000*0.003+50*0.001)
	near(t, "each of the first", w.Plain[0].Each(m), 2*(0.08-0.003)/100)
	// With no waypoints, requests cost the marginal use of the busiest one.
	through := Way{Plain: []Share{{Waypoint: Proxy{Curve: sidecar.Curve, Passes: 1}}}}
	m.RPS, m.L7 = 3000, 1
	near(t, "no waypoint", through.At(m)[0], 3000*0.27/900)
	near(t, "each at none", through.Plain[0].Each(m), 0.27/900)
	m.Waypoints = 1
	near(t, "a waypoint", through.At(m)[0], 0.35+2000*0.27/900)
}

// Rates that differ only by rounding are one: the noise in the last digit of both gives no slope.
func TestPlusOfRoundedRates(t *testing.T) {
	cpu := Curve{{100, 0.1}, {1000, 0.4}}
	memory := Curve{{math.Nextafter(100, 0), 0.2}, {math.Nextafter(1000, 2000), 0.7}}
	for _, rate := range []float64{0, 500, 5000} {
		near(t, "together", cpu.plus(1, memory, 1).At(rate), cpu.At(rate)+memory.At(rate))
	}
}

// A curve passes through every knot that has no close neighbour, and the combined use of two is
// the sum at every rate.
func TestCurveProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) (c Curve, knots []Knot) {
			rate := rapid.Float64Range(0, 50).Draw(t, name)
			for range rapid.IntRange(1, 5).Draw(t, name+" knots") {
				knots = append(knots, Knot{rate, rapid.Float64Range(0, 1).Draw(t, name+" use")})
				rate = rate*apart*1.01 + rapid.Float64Range(1, 100).Draw(t, name+" step")
			}
			return CurveOf(rapid.Permutation(knots).Draw(t, name+" order")), knots
		}
		a, knots := draw("a")
		for _, k := range knots {
			if got := a.At(k.Rate); math.Abs(got-k.Use) > 1e-9 {
				t.Fatalf("%v at %g: %g", a, k.Rate, got)
			}
		}
		b, _ := draw("b")
		sum := a.plus(2, b, 3)
		for range 5 {
			rate := rapid.Float64Range(0, 1000).Draw(t, "rate")
			if got, want := sum.At(rate), 2*a.At(rate)+3*b.At(rate); math.Abs(got-want) > 1e-6*(1+math.Abs(want)) {
				t.Fatalf("%v and %v at %g: %g, want %g", a, b, rate, got, want)
			}
		}
	})
}
