package generate

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/meshtrial/meshtrial/advise/scope"
)

// The lower median of sizes that are counted is that of the sizes in a row.
func TestLowerMedian(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		row, counted := rapid.SliceOfN(rapid.Int64Range(-5, 20), 1, 40).Draw(t, "sizes"), map[int64]int{}
		for _, v := range row {
			counted[v]++
		}
		slices.Sort(row)
		if got := lowerMedian(counted); got != row[(len(row)-1)/2] {
			t.Fatalf("%d, want %d", got, row[(len(row)-1)/2])
		}
	})
	if got := lowerMedian(nil); got != 0 {
		t.Errorf("of none: %d", got)
	}
}

// Hosts are weighed by the sidecars that hold them, one proxy after the other; gateways
// and what was not read whole weigh nothing.
func TestScale(t *testing.T) {
	m := shop(t)
	s := NewScale(m.inv)
	proxy := func(kind string, incomplete bool, cart, other int64) scope.Proxy {
		p := scope.Proxy{Node: &scope.Node{Type: kind}, Incomplete: incomplete, DumpBytes: 1000 + cart + other}
		for name, size := range map[string]int64{"cart": cart, "other-00": other} {
			p.Owners = append(p.Owners, scope.OwnerSize{Owner: scope.Owner{Kind: "Service", Namespace: "shop", Name: name}, DumpBytes: size})
		}
		return p
	}
	for _, p := range []scope.Proxy{proxy("sidecar", false, 10, 40), proxy("sidecar", false, 30, 40), proxy("sidecar", false, 20, 60), proxy("sidecar", false, 50, 40), proxy("router", false, 900, 900), proxy("sidecar", true, 1, 1)} {
		s.Add(p)
	}
	a := s.Accounts()
	cart, other := Host{"shop", "cart.shop.svc.cluster.local"}, Host{"shop", "other-00.shop.svc.cluster.local"}
	if a.Proxies != 4 || len(a.hosts) != 2 || a.hosts[cart].Dump != 20 || a.hosts[other].Dump != 40 || a.base.Dump != 1000 || a.mean.Dump != 30 {
		t.Errorf("%+v", a)
	}
}
