package xds_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshtrial/meshtrial/drive/xds"
	"github.com/meshtrial/meshtrial/drive/xds/wire"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/eventually"
	"github.com/meshtrial/meshtrial/testing/must"
)

func testSpec(address string, n int) xds.Spec {
	spec := xds.DefaultSpec(address)
	for i := range n {
		spec.Proxies = append(spec.Proxies, xds.Proxy{Name: fmt.Sprintf("p-%d", i), Namespace: "ns", IP: fmt.Sprintf("10.0.%d.%d", (i+1)>>8, (i+1)&255)})
	}
	return spec
}

// running counts the fleets of a test.
var running atomic.Int32

// start starts a fleet that is stopped at the end of the test, when no goroutine of it may be left.
func start(t *testing.T, spec xds.Spec) *xds.Fleet {
	t.Helper()
	f, err := xds.Start(context.Background(), spec)
	must.OK(t, err)
	running.Add(1)
	t.Cleanup(func() {
		f.Stop()
		if running.Add(-1) > 0 {
			return // the last one checks
		}
		// A goroutine that nothing waits for may still be ending.
		eventually.Succeeds(t, time.Minute, "nothing is left behind", func() error {
			if left := leftBehind(); len(left) > 0 {
				return errors.New(strings.Join(left, "\n\n"))
			}
			return nil
		})
	})
	return f
}

// leftBehind lists the stacks of goroutines that belong to fleets and streams.
func leftBehind() []string {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	return slices.DeleteFunc(strings.Split(string(stacks), "\n\n"), func(one string) bool {
		return !strings.Contains(one, "drive/xds.(") && !strings.Contains(one, "drive/xds/stream.(")
	})
}

// synced waits until all proxies hold what they subscribed to. However slow the machine is, some
// proxy gets a message within a minute; if none does, synced reports how far they got and what the
// fleet's goroutines do.
func synced(t *testing.T, f *xds.Fleet) {
	t.Helper()
	moved, last := time.Now(), int64(0)
	eventually.Succeeds(t, 5*time.Minute, "all proxies synced", func() error {
		s := f.Status()
		if s.Synced == s.Proxies {
			return nil
		}
		if s.LastMessageUnixNS != last {
			moved, last = time.Now(), s.LastMessageUnixNS
		}
		if time.Since(moved) > time.Minute {
			t.Fatalf("no proxy gets a message: %+v\n%+v\n%s", s, f.Account().Wire, strings.Join(leftBehind(), "\n\n"))
		}
		return fmt.Errorf("%+v", s)
	})
}

func lines(list []request) []string {
	var out []string
	for _, r := range list {
		if r.typeURL == "" {
			continue
		}
		r.nonce = map[bool]string{true: "x"}[r.nonce != ""]
		out = append(out, r.String())
	}
	return out
}

func TestOrderOfRequests(t *testing.T) {
	s := newFake(t)
	f := start(t, testSpec(s.address, 1))
	synced(t, f)
	one := s.live()[0]
	want := []string{
		`cds sub=[] unsub=[] nonce="" initial=0 reject=false`,
		`eds sub=[a] unsub=[] nonce="" initial=0 reject=false`,
		`cds sub=[] unsub=[] nonce="x" initial=0 reject=false`,
		`eds sub=[] unsub=[] nonce="x" initial=0 reject=false`,
		`lds sub=[] unsub=[] nonce="" initial=0 reject=false`,
		`rds sub=[80] unsub=[] nonce="" initial=0 reject=false`,
		`lds sub=[] unsub=[] nonce="x" initial=0 reject=false`,
		`rds sub=[] unsub=[] nonce="x" initial=0 reject=false`,
	}
	eventually.Holds(t, "all requests", func() bool { return len(one.requests()) >= len(want) })
	if got := lines(one.requests()); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if node := one.requests()[0].node; node != "sidecar~10.0.0.1~p-0.ns~ns.svc.cluster.local" {
		t.Errorf("node %q", node)
	}
	if node := one.requests()[1].node; node != "" {
		t.Errorf("node again: %q", node)
	}
}

func TestSubscriptionsFollowClusters(t *testing.T) {
	s := newFake(t)
	f := start(t, testSpec(s.address, 1))
	synced(t, f)
	one := s.live()[0]
	eventually.Holds(t, "its ACK", func() bool { return len(one.requests()) == 8 })
	eds := &cluster.Cluster{Name: "b", ClusterDiscoveryType: &cluster.Cluster_Type{Type: cluster.Cluster_EDS}}
	s.push(1, wire.ClusterType, map[string]proto.Message{"b": eds}, "a")
	// Envoy acknowledges new clusters when they have their endpoints: the first answer has none.
	eventually.Holds(t, "a change of subscription", func() bool { return len(one.requests()) >= 10 })
	s.push(1, wire.EndpointType, map[string]proto.Message{"b": &endpoint.ClusterLoadAssignment{ClusterName: "b"}})
	eventually.Holds(t, "all ACKs", func() bool { return len(one.requests()) >= 12 })
	got := lines(one.requests()[8:12])
	want := []string{`eds sub=[b] unsub=[a] nonce="" initial=0 reject=false`, `eds sub=[] unsub=[] nonce="x" initial=0 reject=false`,
		`cds sub=[] unsub=[] nonce="x" initial=0 reject=false`, `eds sub=[] unsub=[] nonce="x" initial=0 reject=false`}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	// Resources of a name that is no longer subscribed to are not kept.
	s.push(1, wire.EndpointType, map[string]proto.Message{"a": &endpoint.ClusterLoadAssignment{ClusterName: "a"}})
	eventually.Holds(t, "its ACK", func() bool { return len(one.requests()) >= 13 })
	if a := f.Account(); a.Wire["cds"].Removed != 1 || a.Wire["cds"].Resources != 3 {
		t.Errorf("%+v", a.Wire["cds"])
	}
	one.end <- status.Error(codes.Unavailable, "gone")
	eventually.Holds(t, "another stream", func() bool { all := s.live(); return len(all) == 2 && len(all[1].requests()) >= 2 })
	if r := s.live()[1].requests()[1]; r.typeURL != wire.EndpointType || len(r.initial) != 1 || r.initial["b"] == "" {
		t.Errorf("after a reconnect: %s with %v, want b alone", r, r.initial)
	}
}

func routes(text string) map[string]proto.Message {
	return map[string]proto.Message{"80": &route.RouteConfiguration{Name: "80", VirtualHosts: []*route.VirtualHost{{Name: text}}}}
}

func TestMarkers(t *testing.T) {
	for _, mode := range []string{xds.ModeDelta, xds.ModeSotW} {
		t.Run(mode, func(t *testing.T) {
			const n = 7
			s := newFake(t)
			spec := testSpec(s.address, n)
			spec.Mode, spec.StreamsPerConnection = mode, 3
			f := start(t, spec)
			synced(t, f)
			s.push(n, wire.RouteType, routes("old-text"))
			eventually.Holds(t, "the old routes", func() bool { return f.Account().Wire["rds"].Acks == 2*n })
			first, err := f.Announce([]record.Marker{{Change: 3, Type: "rds", Text: "new-text"}, {Change: 4, Type: "rds", Resource: "80", Text: "old-text", Gone: true},
				{Change: 5, Type: "rds", Text: "never"}, {Change: 6, Type: "rds", Resource: "81", Text: "new-text"}})
			if err != nil || first != 0 {
				t.Fatal(first, err)
			}
			before := time.Now().UnixNano()
			for range 2 { // again: it must not be counted twice
				s.push(n, wire.RouteType, routes("new-text"))
			}
			eventually.Holds(t, "all ACKs", func() bool { return f.Account().Wire["rds"].Acks == 4*n })
			// An ACK counts when it is passed to its connection, and gets its time when it is
			// written.
			eventually.Holds(t, "the ACKs' times", func() bool {
				seen := f.Sightings(0)
				return len(seen) == 4 && !slices.Contains(seen[0].AckedNS, record.Never) && !slices.Contains(seen[1].AckedNS, record.Never)
			})
			seen := f.Sightings(0)
			for i, want := range []int{n, n, 0, 0} {
				if len(seen[i].Proxy) != want || seen[i].Change != 3+i {
					t.Errorf("marker %d: %+v", i, seen[i])
				}
			}
			for i := range n {
				if r, a := seen[0].ReceivedNS[i], seen[0].AckedNS[i]; r < before || a < r || a > time.Now().UnixNano() {
					t.Errorf("received %d, acknowledged %d, sent %d", r, a, before)
				}
			}
			w := f.Account().Wire["rds"]
			if w.Identical != n || w.IdenticalBytes == 0 {
				t.Errorf("%d of %d resources came in vain", w.Identical, n)
			}
			if later := f.Sightings(3); len(later) != 1 || later[0].Marker != 3 {
				t.Errorf("%+v", later)
			}
		})
	}
}

// Sightings that are read one by one are those of one moment, and are not copied before they are
// read.
func TestSightingsFrom(t *testing.T) {
	s := newFake(t)
	f := start(t, testSpec(s.address, 3))
	synced(t, f)
	must.OK(t, must.Err(f.Announce([]record.Marker{{Change: 1, Type: "rds", Text: "first"}, {Change: 2, Type: "rds", Text: "second"}})))
	s.push(3, wire.RouteType, routes("first"))
	eventually.Holds(t, "the first change", func() bool { return len(f.Sightings(0)[0].Proxy) == 3 })
	count, each := f.SightingsFrom(0)
	s.push(3, wire.RouteType, routes("second"))
	eventually.Holds(t, "the second change", func() bool { return len(f.Sightings(1)[0].Proxy) == 3 })
	var seen []int
	for m := range each {
		seen = append(seen, len(m.Proxy))
	}
	if count != 2 || !slices.Equal(seen, []int{3, 0}) {
		t.Errorf("%d markers, seen by %v", count, seen)
	}
	for m := range each {
		if m.Change != 1 {
			t.Errorf("%+v", m)
		}
		break
	}
	if n, _ := f.SightingsFrom(7); n != 0 {
		t.Errorf("%d markers that nobody announced", n)
	}
}

func TestGoneByRemoval(t *testing.T) {
	s := newFake(t)
	s.set(wire.ClusterType, "phantom", &cluster.Cluster{Name: "phantom", AltStatName: "shared"})
	s.set(wire.ClusterType, "other", &cluster.Cluster{Name: "other", AltStatName: "shared"})
	f := start(t, testSpec(s.address, 2))
	synced(t, f)
	must.OK(t, must.Err(f.Announce([]record.Marker{{Type: "cds", Text: "phantom", Gone: true}, {Type: "cds", Text: "shared", Gone: true}})))
	s.push(2, wire.ClusterType, nil, "phantom")
	eventually.Holds(t, "its removal", func() bool { return len(f.Sightings(0)[0].Proxy) == 2 })
	if seen := f.Sightings(1)[0]; len(seen.Proxy) != 0 {
		t.Errorf("another cluster still shows it: %+v", seen)
	}
	s.push(2, wire.ClusterType, nil, "other")
	eventually.Holds(t, "the last removal", func() bool { return len(f.Sightings(1)[0].Proxy) == 2 })
}

func TestReconnect(t *testing.T) {
	s := newFake(t)
	f := start(t, testSpec(s.address, 3))
	synced(t, f)
	must.OK(t, must.Err(f.Announce([]record.Marker{{Type: "rds", Text: "new-text"}})))
	s.set(wire.RouteType, "80", routes("new-text")["80"])
	s.push(3, wire.RouteType, routes("new-text"))
	eventually.Holds(t, "the change", func() bool { return len(f.Sightings(0)[0].Proxy) == 3 })
	for _, one := range s.live() {
		one.end <- status.Error(codes.Unavailable, "going down")
	}
	eventually.Holds(t, "new streams", func() bool { return len(s.live()) == 6 && f.Status().Synced == 3 })
	one := s.live()[5]
	got := one.requests()
	if len(got) < 4 || got[0].typeURL != wire.ClusterType || len(got[0].subscribe) != 0 || got[0].initial["a"] != "7" || len(got[0].initial) != 2 ||
		got[0].node == "" || got[1].typeURL != wire.EndpointType || !slices.Equal(got[1].subscribe, []string{"a"}) || got[1].nonce != "" {
		t.Errorf("%v", got)
	}
	if seen := f.Sightings(0)[0]; len(seen.Proxy) != 3 {
		t.Errorf("counted again: %+v", seen)
	}
	a := f.Account()
	if a.Reconnects["unavailable"] != 3 || a.Connected != 3 {
		t.Errorf("%+v", a)
	}
}

func TestServerDiesAndComesBack(t *testing.T) {
	s := newFakeAt(t, ownAddress())
	f := start(t, testSpec(s.address, 5))
	synced(t, f)
	s.grpc.Stop()
	eventually.Holds(t, "that they notice", func() bool { return f.Status().Connected == 0 })
	again := newFakeAt(t, s.address)
	synced(t, f)
	if len(again.live()) != 5 {
		t.Errorf("%d streams", len(again.live()))
	}
	if a := f.Account(); a.Connected != 5 || a.Reconnects["connection"]+a.Reconnects["unavailable"] < 5 {
		t.Errorf("%+v", a.Reconnects)
	}
}

func TestTurnedAway(t *testing.T) {
	s := newFake(t)
	s.refuse = 10
	f := start(t, testSpec(s.address, 20))
	synced(t, f)
	if n := f.Account().Reconnects["resource-exhausted"]; n != 10 {
		t.Errorf("turned away %d times", n)
	}
}

func TestBehaviours(t *testing.T) {
	s := newFake(t)
	spec := testSpec(s.address, len(xds.Behaviours()))
	spec.SlowReadMS, spec.StormEveryS = 30, 0.2
	for i, b := range xds.Behaviours() {
		spec.Proxies[i].Behaviour = b
	}
	f := start(t, spec)
	eventually.Holds(t, "all to connect", func() bool { return f.Account().Wire["rds"].Responses >= int64(len(spec.Proxies)) })
	stream := func(i int) *fakeStream {
		for _, one := range slices.Backward(s.live()) {
			if list := one.requests(); len(list) > 0 && strings.Contains(list[0].node, fmt.Sprintf("p-%d.", i)) {
				return one
			}
		}
		t.Fatalf("no stream of proxy %d", i)
		return nil
	}
	for range 3 {
		for i := range 4 {
			must.OK(t, stream(i).send(wire.RouteType, routes("x"), nil))
		}
	}
	count := func(i int, is func(r request) bool) (n int) {
		for _, r := range stream(i).requests() {
			if is(r) {
				n++
			}
		}
		return n
	}
	acked := func(r request) bool { return r.nonce != "" && r.reject == "" }
	eventually.Holds(t, "the slow reader", func() bool { return count(1, acked) == 7 })
	eventually.Holds(t, "the good one", func() bool { return count(0, acked) == 7 })
	eventually.Holds(t, "rejections", func() bool { return count(3, func(r request) bool { return r.reject != "" }) == 3 })
	if n := count(3, acked); n != 4 {
		t.Errorf("%d ACKs of the one that rejects", n)
	}
	if n := count(2, func(r request) bool { return r.nonce != "" }); n != 0 {
		t.Errorf("%d ACKs of the one that never does", n)
	}
	eventually.Holds(t, "a storm", func() bool { return f.Account().Reconnects["storm"] >= 3 })
}

// TestMalformed checks that a malformed message is an error on its stream and affects no other.
func TestMalformed(t *testing.T) {
	s := newFake(t)
	f := start(t, testSpec(s.address, 2))
	synced(t, f)
	bad := s.live()[0]
	// A cluster with an invalid body: the proxy rejects it and continues.
	must.OK(t, bad.raw(&discovery.DeltaDiscoveryResponse{TypeUrl: wire.ClusterType, Nonce: "bad", Resources: []*discovery.Resource{
		{Name: "x", Resource: &anypb.Any{TypeUrl: wire.ClusterType, Value: []byte{0xff, 0xff}}}}}))
	eventually.Holds(t, "a rejection", func() bool { return f.Account().Wire["cds"].Nacks == 1 })
	// An invalid message: field 1 as a varint.
	must.OK(t, bad.raw(&anypb.Any{TypeUrl: "x", Value: []byte{2<<3 | 2, 0x7f}}))
	eventually.Holds(t, "an unknown type is acknowledged", func() bool { return f.Account().Wire["other"].Responses == 1 || f.Account().Errors == 1 })
	synced(t, f)
	if n := len(s.live()); n > 3 {
		t.Errorf("%d streams: another one was disturbed", n)
	}
	if r := f.Account().Reconnects; r["connection"] != 0 {
		t.Errorf("%v", r)
	}
}

// A proxy that rejects the first response of a type still requests the other types, as Envoy does,
// but does not hold that type until it has accepted one.
func TestFirstResponseRejected(t *testing.T) {
	s := newFake(t)
	broken := &cluster.Cluster{}
	broken.ProtoReflect().SetUnknown([]byte{1 << 3, 1}) // a number for a name
	s.set(wire.ClusterType, "static", broken)
	f := start(t, testSpec(s.address, 1))
	eventually.Holds(t, "all but clusters", func() bool {
		w := f.Account().Wire
		return w["cds"].Nacks == 1 && w["lds"].Acks > 0 && w["rds"].Acks > 0
	})
	if got := f.Status(); got.Synced != 0 || got.EverSynced != 0 {
		t.Errorf("%+v", got)
	}
	s.push(1, wire.ClusterType, map[string]proto.Message{"static": &cluster.Cluster{Name: "static"}})
	synced(t, f)
}

func TestBadSpecs(t *testing.T) {
	for name, change := range map[string]func(s *xds.Spec){
		"no istiod address": func(s *xds.Spec) { s.Addresses = nil },
		"bad address":       func(s *xds.Spec) { s.Addresses = []string{"host"} },
		"no proxies":        func(s *xds.Spec) { s.Proxies = nil },
		"mode":              func(s *xds.Spec) { s.Mode = "x" },
		"streams":           func(s *xds.Spec) { s.StreamsPerConnection = 0 },
		"IP":                func(s *xds.Spec) { s.Proxies[0].IP = "x" },
		"behaviour":         func(s *xds.Spec) { s.Proxies[0].Behaviour = "x" },
		"type":              func(s *xds.Spec) { s.Proxies[0].Type = "x" },
		"name":              func(s *xds.Spec) { s.Proxies[0].Name = "" },
		"security":          func(s *xds.Spec) { s.Security.Mode = "x" },
		"no root":           func(s *xds.Spec) { s.Security.Mode = xds.SecurityToken },
		"no token":          func(s *xds.Spec) { s.Security = xds.Security{Mode: xds.SecurityToken, RootCA: "x"} },
		"root": func(s *xds.Spec) {
			s.Security = xds.Security{Mode: xds.SecurityToken, RootCA: "x", Tokens: map[string]string{"": "t"}}
		},
		"not a certificate": func(s *xds.Spec) { s.Security = xds.Security{Mode: xds.SecurityMTLS, RootCA: "x"} },
	} {
		spec := testSpec("127.0.0.1:1", 1)
		change(&spec)
		if _, err := xds.Start(t.Context(), spec); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	f := start(t, testSpec("127.0.0.1:1", 1))
	for _, m := range []record.Marker{{Type: "cds"}, {Type: "xyz", Text: "x"}, {Type: "sds", Text: "x"}} {
		if _, err := f.Announce([]record.Marker{m}); err == nil {
			t.Errorf("%+v: taken", m)
		}
	}
	eventually.Holds(t, "a reason", func() bool { s := f.Status(); return s.Waiting["dial"] == 1 && s.LastError != "" })
}
