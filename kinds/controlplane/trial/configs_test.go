package trial

import (
	"fmt"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/advise/scope"
	"github.com/meshtrial/meshtrial/drive/xds"
)

func TestChosenHoldings(t *testing.T) {
	h := func(node, namespace string, proxies int, bytes int64) xds.Holding {
		return xds.Holding{Type: node, Namespace: namespace, Proxies: proxies, Bytes: bytes}
	}
	words := func(list []xds.Holding) string {
		var out []string
		for _, one := range list {
			out = append(out, fmt.Sprintf("%s.%s:%d", one.Type, one.Namespace, one.Proxies))
		}
		return strings.Join(out, " ")
	}
	all := []xds.Holding{h("sidecar", "test-2", 9, 1000), h("sidecar", "test-3", 8, 1010), h("sidecar", "test-4", 8, 2000), h("sidecar", "test-5", 7, 990), h("sidecar", "test-1", 5, 400), h("router", "edge", 1, 1000)}
	if got, want := words(chosen(all, "test-1")), "sidecar.test-1:5 router.edge:1 sidecar.test-2:24 sidecar.test-4:8"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if all[0].Proxies != 9 {
		t.Error("the fleet's own list was changed")
	}
	// If the scope changes nothing, one represents all.
	all[4].Bytes = 1005
	if got, want := words(chosen(all[:5], "test-1")), "sidecar.test-1:29 sidecar.test-4:8"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := chosen(nil, "x"); len(got) != 0 {
		t.Errorf("%+v", got)
	}
	var many []xds.Holding
	for i := range 20 {
		many = append(many, h("sidecar", fmt.Sprint(i), 1, int64(1000*(i+1))))
	}
	if got := chosen(many, "7"); len(got) != maxHoldings || got[0].Namespace != "7" {
		t.Errorf("%+v", got)
	}
}

// The record of a proxy's configuration adds up.
func TestHoldingAddsUp(t *testing.T) {
	p := scope.Proxy{Name: "a.b", DumpBytes: 0, Resources: 40, Types: []scope.TypeSize{{Type: scope.TypeEndpoint, DumpBytes: 77}, {Type: scope.TypeCluster, DumpBytes: 5}}}
	for i := range 20 {
		p.Owners = append(p.Owners, scope.OwnerSize{Owner: scope.Owner{Kind: "Service", Namespace: "x", Name: string(rune('a' + i))}, DumpBytes: int64(100 - i), WireBytes: int64(50 - i), Resources: 2})
		p.DumpBytes, p.WireBytes = p.DumpBytes+int64(100-i), p.WireBytes+int64(50-i)
	}
	h := holding(p)
	dump, wire, resources := h.Others.DumpBytes, h.Others.WireBytes, h.Others.Resources
	for _, o := range h.Owners {
		dump, wire, resources = dump+o.DumpBytes, wire+o.WireBytes, resources+o.Resources
	}
	if dump != p.DumpBytes || wire != p.WireBytes || resources != 40 || len(h.Owners) != maxOwners || h.OtherOwners != 20-maxOwners || h.EndpointDumpBytes != 77 || h.Owners[0].Owner != "Service x/a" {
		t.Errorf("%+v", h)
	}
}
