package runner

import (
	"strings"
	"testing"

	"github.com/meshmark/meshmark/scope"
	"github.com/meshmark/meshmark/xds"
)

func TestChosenHoldings(t *testing.T) {
	h := func(node, namespace string, proxies int) xds.Holding {
		return xds.Holding{Type: node, Namespace: namespace, Name: node + "." + namespace, Proxies: proxies}
	}
	all := []xds.Holding{h("sidecar", "test-2", 9), h("sidecar", "test-3", 8), h("sidecar", "test-4", 8), h("sidecar", "test-5", 8), h("sidecar", "test-1", 5), h("router", "edge", 1)}
	var got []string
	for _, one := range chosen(all, "test-1") {
		got = append(got, one.Name)
	}
	if want := "sidecar.test-1 sidecar.test-2 router.edge sidecar.test-3"; strings.Join(got, " ") != want {
		t.Errorf("%v, want %s", got, want)
	}
	if none := chosen(nil, "x"); len(none) != 0 {
		t.Errorf("%+v", none)
	}
	if got := chosen(all[5:], "test-1"); len(got) != 1 {
		t.Errorf("%+v", got)
	}
}

func TestFileNameOfAKind(t *testing.T) {
	for kind, want := range map[xds.Holding]string{
		{Type: "sidecar", Namespace: "test-1"}:                   "sidecar-test-1.xds.gz",
		{Type: "router", Namespace: "a_B/..c"}:                   "router-a-b-c.xds.gz",
		{Type: "sidecar", Namespace: strings.Repeat("long", 30)}: "sidecar-" + strings.Repeat("long", 10) + "lo.xds.gz",
	} {
		if got := fileName(kind); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// What a record keeps of a proxy adds up.
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
