package xds_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/meshtrial/meshtrial/drive/xds"
	"github.com/meshtrial/meshtrial/drive/xds/wire"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/eventually"
	"github.com/meshtrial/meshtrial/testing/must"
	"github.com/meshtrial/meshtrial/testing/race"
)

// raw returns a message of these bytes: a resource of a type without a package
// here.
func raw(b []byte) proto.Message {
	m := &emptypb.Empty{}
	m.ProtoReflect().SetUnknown(b)
	return m
}

// workload returns an Address of a workload at an IP.
func workload(ip string, ready bool) proto.Message {
	var b []byte
	b = protowire.AppendBytes(protowire.AppendTag(b, 3, protowire.BytesType), netip.MustParseAddr(ip).AsSlice())
	if !ready {
		b = protowire.AppendVarint(protowire.AppendTag(b, 17, protowire.VarintType), 1)
	}
	return raw(protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), b))
}

// ofZtunnels returns a fake that serves an ambient mesh.
func ofZtunnels(t *testing.T) *fake {
	t.Helper()
	s := newFake(t)
	s.set(wire.AddressType, "Kubernetes//Pod/ns/a", workload("10.1.0.1", true))
	s.set(wire.AddressType, "ns/svc.ns.svc.cluster.local", raw(protowire.AppendString(protowire.AppendTag(nil, 2, protowire.BytesType), "svc")))
	s.set(wire.AuthorizationType, "ns/deny", raw(protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "deny")))
	return s
}

func ztunnels(address string, n int) xds.Spec {
	spec := testSpec(address, n)
	for i := range spec.Proxies {
		spec.Proxies[i].Type, spec.Proxies[i].Node = xds.NodeZtunnel, fmt.Sprintf("node-%d", i)
	}
	return spec
}

func TestRequestsOfZtunnel(t *testing.T) {
	s := ofZtunnels(t)
	f := start(t, ztunnels(s.address, 1))
	synced(t, f)
	one := s.live()[0]
	eventually.Holds(t, "its ACKs", func() bool { return len(one.requests()) == 4 })
	got := one.requests()
	slices.SortStableFunc(got[2:], func(a, b request) int { return strings.Compare(b.typeURL, a.typeURL) })
	want := []string{
		`wds sub=[] unsub=[] nonce="" initial=0 reject=false`,
		`wads sub=[] unsub=[] nonce="" initial=0 reject=false`,
		`wds sub=[] unsub=[] nonce="x" initial=0 reject=false`,
		`wads sub=[] unsub=[] nonce="x" initial=0 reject=false`,
	}
	if !slices.Equal(lines(got), want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(lines(got), "\n"), strings.Join(want, "\n"))
	}
	for i, node := range []string{got[0].node, got[1].node} {
		if node != "ztunnel~10.0.0.1~p-0.ns~ns.svc.cluster.local" {
			t.Errorf("request %d: node %q", i, node)
		}
	}
	if got[2].node != "" || got[3].node != "" {
		t.Errorf("node again: %v", got)
	}
	// On a new stream it sends everything it holds, with versions.
	s.push(1, wire.AddressType, map[string]proto.Message{"Kubernetes//Pod/ns/b": workload("10.1.0.2", true)}, "Kubernetes//Pod/ns/a")
	eventually.Holds(t, "the push", func() bool { return len(one.requests()) == 5 })
	one.end <- status.Error(codes.Unavailable, "gone")
	eventually.Holds(t, "another stream", func() bool { all := s.live(); return len(all) == 2 && len(all[1].requests()) >= 2 })
	again := s.live()[1].requests()[:2]
	if a := again[0]; a.typeURL != wire.AddressType || len(a.initial) != 2 || a.initial["Kubernetes//Pod/ns/b"] != "7" || a.initial["ns/svc.ns.svc.cluster.local"] != "7" || a.node == "" {
		t.Errorf("%+v", a)
	}
	if a := again[1]; a.typeURL != wire.AuthorizationType || len(a.initial) != 1 || a.node == "" {
		t.Errorf("%+v", a)
	}
}

// An unready endpoint is present but marked so; a longer address begins with
// another; and an address may name a resource.
func TestMarkersOfZtunnels(t *testing.T) {
	const n = 3
	s := ofZtunnels(t)
	spec := ztunnels(s.address, n)
	spec.Proxies = append(spec.Proxies, testSpec(s.address, 1).Proxies...)
	f := start(t, spec)
	synced(t, f)
	must.OK(t, must.Err(f.Announce([]record.Marker{
		{Change: 0, Type: "wds", Text: "10.1.0.1", Gone: true}, {Change: 1, Type: "wds", Text: "10.1.0.2"}, {Change: 2, Type: "wds", Text: "10.1.0.20"},
		{Change: 3, Type: "wads", Resource: "ns/deny", Text: "principal"}, {Change: 4, Type: "wds", Resource: "ns/new.ns.svc.cluster.local", Text: "new.ns.svc.cluster.local"},
	})))
	seen := func() string {
		var out []string
		for _, m := range f.Sightings(0) {
			out = append(out, fmt.Sprint(len(m.Proxy)))
		}
		return strings.Join(out, " ")
	}
	push := func(typeURL string, resources map[string]proto.Message, removed ...string) {
		t.Helper()
		for _, one := range s.live() {
			if strings.HasPrefix(one.requests()[0].node, "ztunnel~") {
				must.OK(t, one.send(typeURL, resources, removed))
			}
		}
	}
	name := "Kubernetes/discovery.k8s.io/EndpointSlice/ns/s/10.1.0.2"
	acks := func(n int64) func() bool { return func() bool { return f.Account().ZtunnelWire["wds"].Acks == n } }
	push(wire.AddressType, map[string]proto.Message{name: workload("10.1.0.2", false)})
	eventually.Holds(t, "what is not ready", acks(2*n))
	if got := seen(); got != "0 0 0 0 0" {
		t.Errorf("not ready: %s", got)
	}
	push(wire.AddressType, map[string]proto.Message{name: workload("10.1.0.2", true), "ns/new.ns.svc.cluster.local": raw([]byte{0x12, 0})})
	push(wire.AuthorizationType, map[string]proto.Message{"ns/deny": raw(protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "principal"))})
	eventually.Holds(t, "that it is", func() bool { return seen() == "0 3 0 3 3" })
	push(wire.AddressType, map[string]proto.Message{"Kubernetes//Pod/ns/a": workload("10.1.0.1", false)})
	eventually.Holds(t, "that one goes", func() bool { return seen() == "3 3 0 3 3" })

	a := f.Account()
	if w := a.ZtunnelWire["wds"]; w.Responses != 4*n || a.Wire["wds"] != w || a.ZtunnelWire["wads"].Acks != 2*n || a.Wire["cds"].Responses != 1 {
		t.Errorf("%+v, of all %+v", a.ZtunnelWire, a.Wire)
	}
	if a.ZtunnelConfig["wds"] == 0 || a.ZtunnelConfig["cds"] != 0 || a.Config["wds"] != 0 || a.Config["cds"] == 0 {
		t.Errorf("ztunnels hold %v, the others %v", a.ZtunnelConfig, a.Config)
	}
	if st := f.Status(); st.Ztunnels != n || st.Proxies != n+1 {
		t.Errorf("%+v", st)
	}
}

func TestZtunnelsSpeakDelta(t *testing.T) {
	spec := ztunnels("127.0.0.1:1", 1)
	spec.Mode = xds.ModeSotW
	if _, err := xds.Start(context.Background(), spec); err == nil || !strings.Contains(err.Error(), "proxy 0: ztunnel supports only delta xDS") {
		t.Errorf("%v", err)
	}
}

// With HBONE sidecars subscribe to workloads right after clusters, also on a new
// stream.
func TestSidecarsDiscoverWorkloads(t *testing.T) {
	s := newFake(t)
	s.set(wire.WorkloadType, "Kubernetes//Pod/ns/a", raw([]byte{0x0a, 0x01, 'a'}))
	spec := testSpec(s.address, 1)
	spec.HBONE = true
	f := start(t, spec)
	synced(t, f)
	eventually.Holds(t, "its workloads", func() bool { return f.Account().Wire["wds"].Acks == 1 })
	one := s.live()[0]
	if got := lines(one.requests())[:2]; got[0] != `cds sub=[] unsub=[] nonce="" initial=0 reject=false` || got[1] != `wds sub=[] unsub=[] nonce="" initial=0 reject=false` {
		t.Errorf("%v", got)
	}
	if r := one.requests()[1]; r.typeURL != wire.WorkloadType || r.node != "" {
		t.Errorf("%+v", r)
	}
	if a := f.Account(); a.Config["wds"] == 0 || a.ZtunnelWire != nil {
		t.Errorf("%+v", a)
	}
	one.end <- status.Error(codes.Unavailable, "gone")
	eventually.Holds(t, "another stream", func() bool { all := s.live(); return len(all) == 2 && len(all[1].requests()) >= 2 })
	if r := s.live()[1].requests()[1]; r.typeURL != wire.WorkloadType || r.initial["Kubernetes//Pod/ns/a"] != "7" {
		t.Errorf("after a reconnect: %+v", r)
	}
}

// TestMemoryOfZtunnels limits the live heap of one additional ztunnel with 1,000
// Services of one workload each. It includes what the server, in the same process,
// keeps for it.
func TestMemoryOfZtunnels(t *testing.T) {
	const (
		few, many = 100, 400
		limit     = 15 << 10 // bytes
	)
	if race.Enabled {
		t.Skip("the race detector keeps memory of its own")
	}
	s := newFake(t)
	for i := range 1000 {
		s.set(wire.AddressType, fmt.Sprintf("Kubernetes//Pod/ns/pod-%d", i), workload(fmt.Sprintf("10.2.%d.%d", i>>8, i&255), true))
		s.set(wire.AddressType, fmt.Sprintf("ns/svc-%d.ns.svc.cluster.local", i), raw(protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), fmt.Appendf(nil, "svc-%d", i))))
	}
	heap := func(n int64) int64 {
		f := start(t, ztunnels(s.address, int(n)))
		defer f.Stop()
		synced(t, f)
		eventually.Holds(t, "all ACKs", func() bool { return f.Account().ZtunnelWire["wds"].Acks == n })
		f.GiveBack()
		return xds.HeapAlloc()
	}
	heap(few) // what is created once
	less := heap(few)
	each := (heap(many) - less) / (many - few)
	t.Logf("%d bytes a ztunnel", each)
	if each <= 0 || each > limit {
		t.Errorf("%d bytes a ztunnel, want at most %d", each, limit)
	}
}
