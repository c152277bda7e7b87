package assess

import (
	"encoding/json"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/meshtrial/meshtrial/testing/must"
)

// Whatever figures were read, an assessment has none that JSON cannot have, and two of them compare.
func TestFinite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		figure := rapid.SampledFrom([]float64{0, 1e-300, 1, 1000, 1e15, 1e300, math.MaxFloat64, -1, math.NaN(), math.Inf(1), math.Inf(-1)})
		maybe := func(name string) *float64 {
			if rapid.Bool().Draw(t, "has "+name) {
				return new(figure.Draw(t, name))
			}
			return nil
		}
		draw := func() Assessment {
			e := Evidence{Nodes: rapid.IntRange(0, 2).Draw(t, "nodes"), Open: maybe("open"), Sizes: &Sizes{figure.Draw(t, "request"), figure.Draw(t, "answer")},
				Protocols: map[string]float64{"http": figure.Draw(t, "http")}, Prices: Prices{Core: rapid.SampledFrom([]float64{0, 1e9}).Draw(t, "price"), Currency: "€"}}
			for range rapid.IntRange(0, 8).Draw(t, "proxies") {
				p := Proxy{Kind: rapid.SampledFrom(Kinds).Draw(t, "kind"), Namespace: "a", Workload: rapid.SampledFrom([]string{"x", "y"}).Draw(t, "workload"), Cores: maybe("cores"), Bytes: maybe("bytes"),
					CoresCounted: maybe("counted"), Open: maybe("connections")}
				if p.Called = maybe("called"); p.Called != nil {
					p.Served, p.Connections = new(figure.Draw(t, "served")), new(figure.Draw(t, "opened"))
				}
				e.Proxies = append(e.Proxies, p)
				e.Calls = append(e.Calls, Call{Host: "h", PerS: figure.Draw(t, "calls")})
			}
			return Assess(e)
		}
		old, now := draw(), draw()
		now.Compare(old)
		_, err := json.Marshal(now)
		must.OK(t, err)
	})
}
