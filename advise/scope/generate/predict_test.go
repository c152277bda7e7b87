package generate

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/meshtrial/meshtrial/advise/scope"
)

// The lower median of counted sizes equals that of the sorted list.
func TestMedian(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		row, counted := rapid.SliceOfN(rapid.Int64Range(-5, 20), 1, 40).Draw(t, "sizes"), sizes{}
		for _, v := range row {
			counted[v]++
		}
		slices.Sort(row)
		if got := counted.median(); got != row[(len(row)-1)/2] {
			t.Fatalf("%d, want %d", got, row[(len(row)-1)/2])
		}
	})
}

// Hosts are weighed by the sidecars that hold them; gateways and incomplete dumps have no weight.
func TestScale(t *testing.T) {
	m := shop(t)
	s := NewScale(m.inv)
	for _, p := range []struct {
		kind        string
		incomplete  bool
		cart, other int64
	}{{"sidecar", false, 10, 40}, {"sidecar", false, 30, 40}, {"sidecar", false, 20, 60}, {"sidecar", false, 50, 40}, {"router", false, 900, 900}, {"sidecar", true, 1, 1}} {
		of := func(name string, size int64) scope.OwnerSize {
			return scope.OwnerSize{Owner: scope.Owner{Kind: "Service", Namespace: "shop", Name: name}, DumpBytes: size}
		}
		s.Add(scope.Proxy{Node: &scope.Node{Type: p.kind}, Incomplete: p.incomplete, DumpBytes: 1000 + p.cart + p.other,
			Owners: []scope.OwnerSize{of("cart", p.cart), of("other-00", p.other)}})
	}
	a := s.Accounts()
	cart, other := Host{"shop", "cart.shop.svc.cluster.local"}, Host{"shop", "other-00.shop.svc.cluster.local"}
	if a.Proxies != 4 || len(a.hosts) != 2 || a.hosts[cart] != 20 || a.hosts[other] != 40 || a.base != 1000 || a.mean != 30 {
		t.Errorf("%+v", a)
	}
}
