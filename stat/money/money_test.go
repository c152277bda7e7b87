package money

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func near(a, b float64) bool {
	return math.Abs(a-b) <= 1e-9*math.Max(1, math.Max(math.Abs(a), math.Abs(b)))
}

// The published estimate: 0.6 vCPU for 1,000 requests per second, two proxies
// per hop, a million requests per second, 40 USD per core-month.
func TestPublishedEstimate(t *testing.T) {
	m := Published()
	b := m.Price(Use{CPUPerHop: m.PerHop(Exact(0.6 / 1000))})
	if !near(b.Cores.Estimate, 1200) || !near(b.Total.Estimate, 48_000) {
		t.Errorf("%g cores for %g, want 1200 for 48000", b.Cores.Estimate, b.Total.Estimate)
	}
}

func TestBillLines(t *testing.T) {
	m := Mesh{RPS: 1000, Hops: 3, ProxiesPerHop: 2, Proxies: 100, Utilisation: 0.5, CoreMonth: 30, GBMonth: 4, Currency: "EUR"}
	b := m.Price(Use{
		CPUPerHop:   Value{0.001, 0.0008, 0.0011},
		IdleCores:   Value{0.002, 0.001, 0.004},
		MemoryBytes: Value{50e6, 40e6, 80e6},
	})
	for _, c := range []struct {
		line      string
		got, want Value
	}{
		{"cores", b.Cores, Value{3 + 0.2, 2.4 + 0.1, 3.3 + 0.4}},
		{"cpu", b.CPU, Value{3.2 * 60, 2.5 * 60, 3.7 * 60}},
		{"bytes", b.MemoryBytes, Value{5e9, 4e9, 8e9}},
		{"memory", b.Memory, Value{20, 16, 32}},
		{"total", b.Total, Value{212, 166, 254}},
	} {
		if !near(c.got.Estimate, c.want.Estimate) || !near(c.got.Low, c.want.Low) || !near(c.got.High, c.want.High) {
			t.Errorf("%s: %v, want %v", c.line, c.got, c.want)
		}
	}
	if r := m.RateOfOne(); !near(r, 60) {
		t.Errorf("one proxy sees %g requests per second, want 60", r)
	}
}

func values(limit float64) *rapid.Generator[Value] {
	return rapid.Custom(func(t *rapid.T) Value {
		v := rapid.Float64Range(-limit, limit).Draw(t, "estimate")
		return Value{v, v - rapid.Float64Range(0, limit).Draw(t, "below"), v + rapid.Float64Range(0, limit).Draw(t, "above")}
	})
}

// The price is linear, so the price of a difference is the difference of
// prices, and intervals contain their estimates, whatever the signs.
func TestPriceIsLinear(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.Float64Range(0.1, 1000)
		m := Mesh{RPS: number.Draw(t, "rps"), Hops: number.Draw(t, "hops"), ProxiesPerHop: 2, Proxies: number.Draw(t, "proxies"),
			Utilisation: rapid.Float64Range(0.1, 1).Draw(t, "utilisation"), CoreMonth: number.Draw(t, "core"), GBMonth: number.Draw(t, "gb")}
		use := func(name string) Use {
			return Use{values(1).Draw(t, name+" cpu"), values(1).Draw(t, name+" idle"), values(1e9).Draw(t, name+" bytes")}
		}
		a, b := use("a"), use("b")
		minus := func(v, w Value) Value { return v.Plus(w.Times(-1)) }
		apart := minus(m.Price(a).Total, m.Price(b).Total)
		together := m.Price(Use{minus(a.CPUPerHop, b.CPUPerHop), minus(a.IdleCores, b.IdleCores), minus(a.MemoryBytes, b.MemoryBytes)}).Total
		scale := 1 + math.Abs(apart.Low) + math.Abs(apart.High)
		for _, d := range []float64{apart.Estimate - together.Estimate, apart.Low - together.Low, apart.High - together.High} {
			if math.Abs(d) > 1e-9*scale {
				t.Fatalf("difference of prices %v, price of the difference %v", apart, together)
			}
		}
		if apart.Low > apart.Estimate || apart.High < apart.Estimate {
			t.Fatalf("%v does not hold its estimate", apart)
		}
	})
}
