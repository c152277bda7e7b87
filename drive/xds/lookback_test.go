package xds_test

import (
	"slices"
	"testing"
	"time"

	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/proto"

	"github.com/meshtrial/meshtrial/drive/xds"
	"github.com/meshtrial/meshtrial/drive/xds/wire"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/eventually"
	"github.com/meshtrial/meshtrial/testing/must"
)

// addresses returns the endpoints of cluster a; those that begin with ! get no
// traffic.
func addresses(list ...string) map[string]proto.Message {
	a := &endpoint.ClusterLoadAssignment{ClusterName: "a", Endpoints: []*endpoint.LocalityLbEndpoints{{}}}
	for _, ip := range list {
		health := core.HealthStatus_HEALTHY
		if ip[0] == '!' {
			health, ip = core.HealthStatus_UNHEALTHY, ip[1:]
		}
		a.Endpoints[0].LbEndpoints = append(a.Endpoints[0].LbEndpoints, &endpoint.LbEndpoint{HealthStatus: health, HostIdentifier: &endpoint.LbEndpoint_Endpoint{
			Endpoint: &endpoint.Endpoint{Address: &core.Address{Address: &core.Address_SocketAddress{SocketAddress: &core.SocketAddress{Address: ip}}}}}})
	}
	return map[string]proto.Message{"a": a}
}

func edsCluster(name string) *cluster.Cluster {
	return &cluster.Cluster{Name: name, ClusterDiscoveryType: &cluster.Cluster_Type{Type: cluster.Cluster_EDS}}
}

// acks returns how many responses of a type all proxies acknowledged.
func acks(f *xds.Fleet, kind string) int { return int(f.Account().Wire[kind].Acks) }

// pusher returns a function that pushes addresses to the only proxy and waits for its ACK.
func pusher(t *testing.T, s *fake, f *xds.Fleet) func(list ...string) {
	acked := acks(f, "eds")
	return func(list ...string) {
		t.Helper()
		s.push(1, wire.EndpointType, addresses(list...))
		acked++
		eventually.Holds(t, "an ACK", func() bool { return acks(f, "eds") == acked })
	}
}

// TestLateMarkers checks that a marker announced after proxies received what it
// marks is found with the original times, whether or not they have acknowledged
// it and whether or not they still hold it, and never twice for one proxy.
func TestLateMarkers(t *testing.T) {
	for _, mode := range []string{xds.ModeDelta, xds.ModeSotW} {
		t.Run(mode, func(t *testing.T) {
			const n = 5
			s := newFake(t)
			spec := testSpec(s.address, n)
			spec.Mode, spec.StreamsPerConnection = mode, 2
			spec.Proxies[3].Behaviour = xds.BehaviourNeverAcks
			f := start(t, spec)
			synced(t, f)
			s.push(n, wire.EndpointType, addresses("10.0.0.1"))
			first := acks(f, "eds")
			eventually.Holds(t, "the first address", func() bool { return f.Account().Wire["eds"].Responses == 2*n })
			before := time.Now().UnixNano()
			s.push(n, wire.EndpointType, addresses("10.0.0.1", "10.0.0.2"))
			eventually.Holds(t, "the second", func() bool { return f.Account().Wire["eds"].Responses == 3*n && acks(f, "eds") >= first+n-1 })
			s.push(n, wire.EndpointType, addresses("10.0.0.3"))
			eventually.Holds(t, "the third", func() bool { return f.Account().Wire["eds"].Responses == 4*n })
			eventually.Holds(t, "all ACKs", func() bool { return acks(f, "eds") == 4*(n-1) })
			after := time.Now().UnixNano()
			must.OK(t, must.Err(f.Announce([]record.Marker{
				{Change: 1, Type: "eds", Resource: "a", Text: "10.0.0.2"},
				{Change: 2, Type: "eds", Resource: "a", Text: "10.0.0.1", Gone: true},
				{Change: 3, Type: "eds", Resource: "a", Text: "10.0.0.3"},
				{Change: 4, Type: "eds", Resource: "a", Text: "10.0.0.4"},
				{Change: 5, Type: "eds", Resource: "b", Text: "10.0.0.3"},
			})))
			s.push(n, wire.EndpointType, addresses("10.0.0.3", "10.0.0.4"))
			eventually.Holds(t, "the fourth", func() bool { return len(f.Sightings(3)[0].Proxy) == n && acks(f, "eds") == 5*(n-1) })
			seen := f.Sightings(0)
			for i, want := range []int{n, n, n, n, 0} {
				if len(seen[i].Proxy) != want {
					t.Fatalf("marker %d: %+v", i, seen[i])
				}
			}
			for i := range 3 {
				m := seen[i]
				for k, p := range m.Proxy {
					if r := m.ReceivedNS[k]; r < before || r > after {
						t.Errorf("marker %d, proxy %d: received %d, not from %d to %d", i, p, r, before, after)
					}
					if a := m.AckedNS[k]; p == 3 && a != record.Never || p != 3 && (a < m.ReceivedNS[k] || a > after) {
						t.Errorf("marker %d, proxy %d: acknowledged %d", i, p, a)
					}
				}
			}
			for i := range n { // by proxy
				at := func(m int) int64 { return seen[m].ReceivedNS[slices.Index(seen[m].Proxy, int32(i))] }
				if !(at(0) < at(1) && at(1) == at(2) && at(2) < at(3)) {
					t.Errorf("proxy %d: %d %d %d %d", i, at(0), at(1), at(2), at(3))
				}
			}
			if seen[0].SearchedFromNS > before {
				t.Errorf("searched from %d, pushed after %d", seen[0].SearchedFromNS, before)
			}
		})
	}
}

// TestLateAck checks that a change that was received but not acknowledged when
// its marker was announced gets its acknowledgement later.
func TestLateAck(t *testing.T) {
	s := newFake(t)
	f := start(t, testSpec(s.address, 1))
	synced(t, f)
	one := s.live()[0]
	eventually.Holds(t, "its ACKs", func() bool { return len(one.requests()) == 8 })
	s.silent = true // a new cluster waits for its endpoints, and its ACK with it
	s.push(1, wire.ClusterType, map[string]proto.Message{"b": edsCluster("b")})
	eventually.Holds(t, "the subscription", func() bool { return len(one.requests()) == 9 })
	must.OK(t, must.Err(f.Announce([]record.Marker{{Type: "cds", Text: "b"}})))
	if seen := f.Sightings(0)[0]; len(seen.Proxy) != 1 || seen.AckedNS[0] != record.Never {
		t.Fatalf("%+v", seen)
	}
	s.push(1, wire.EndpointType, map[string]proto.Message{"b": &endpoint.ClusterLoadAssignment{ClusterName: "b"}})
	eventually.Holds(t, "its ACK", func() bool { seen := f.Sightings(0)[0]; return seen.AckedNS[0] > seen.ReceivedNS[0] })
}

// TestShownAlready checks that a marker that the previous content also showed
// is not seen: it was sent again for another reason. If its text disappears and
// comes back, it may have been sent together with the change that removed it:
// it then counts from when the change was committed.
func TestShownAlready(t *testing.T) {
	for _, mode := range []string{xds.ModeDelta, xds.ModeSotW} {
		t.Run(mode, func(t *testing.T) {
			s := newFake(t)
			spec := testSpec(s.address, 1)
			spec.Mode = mode
			f := start(t, spec)
			synced(t, f)
			push := pusher(t, s, f)
			seen := func(m int) int { return len(f.Sightings(m)[0].Proxy) }
			push("10.0.0.1")
			there, gone := record.Marker{Type: "eds", Resource: "a", Text: "10.0.0.1"}, record.Marker{Type: "eds", Resource: "a", Text: "10.0.0.1", Gone: true}
			announce := func(change int, m record.Marker) {
				t.Helper()
				m.Change = change
				if first, err := f.Announce([]record.Marker{m}); err != nil || first != change {
					t.Fatal(first, err)
				}
			}
			// It disappears, with no other change.
			announce(0, gone)
			push("!10.0.0.1")
			// It comes back. But first the same is sent again, and then with
			// another address: neither shows it.
			announce(1, there)
			push("!10.0.0.1")
			push("!10.0.0.1", "10.0.0.9")
			if seen(0) != 1 || seen(1) != 0 {
				t.Fatalf("gone: %+v, back: %+v", f.Sightings(0)[0], f.Sightings(1)[0])
			}
			push("10.0.0.1")
			// It disappears and comes back in one push, which shows it before
			// and after, as does an earlier push.
			announce(2, gone)
			announce(3, there)
			push("10.0.0.1", "10.0.0.8")
			committed := time.Now().UnixNano()
			push("10.0.0.1", "10.0.0.8") // both changes
			push("10.0.0.1")             // and another change
			if seen(1) != 1 || seen(2) != 0 || seen(3) != 0 {
				t.Fatalf("%+v", f.Sightings(0))
			}
			m := f.Sightings(3)[0]
			if m.Stays == nil || len(m.Stays.Proxy) != 3 {
				t.Fatalf("stays %+v", m.Stays)
			}
			got := m.After(committed)
			if len(got.Proxy) != 1 || got.ReceivedNS[0] != m.Stays.ReceivedNS[1] || got.AckedNS[0] < got.ReceivedNS[0] {
				t.Errorf("after %d: %+v of %+v", committed, got, m.Stays)
			}
			if got := m.After(time.Now().UnixNano()); len(got.Proxy) != 0 {
				t.Errorf("of nothing: %+v", got)
			}
			if f.Sightings(2)[0].Stays != nil {
				t.Errorf("gone: %+v", f.Sightings(2)[0])
			}
			// The opposite: it comes back and disappears in one push.
			announce(4, gone)
			push("!10.0.0.1")
			announce(5, there)
			announce(6, gone)
			push("!10.0.0.1", "10.0.0.7")
			if m := f.Sightings(6)[0]; len(m.Proxy) != 0 || m.Stays == nil || len(m.After(0).Proxy) != 1 {
				t.Errorf("comes and goes: %+v", m)
			}
			// A text with only one change, announced far too late: if sent
			// again, it is not new.
			time.Sleep(time.Millisecond)
			f.Forget()
			announce(7, record.Marker{Type: "eds", Text: "10.0.0.7"})
			push("!10.0.0.1", "10.0.0.7", "10.0.0.6")
			if m := f.Sightings(7)[0]; len(m.Proxy) != 0 || m.Stays != nil || m.SearchedFromNS <= committed {
				t.Errorf("too late: %+v", m)
			}
		})
	}
}

// TestLostBodies checks that if a content is no longer kept, the sightings
// report that the marker may have been in it.
func TestLostBodies(t *testing.T) {
	s := newFake(t)
	f := start(t, testSpec(s.address, 1))
	synced(t, f)
	f.KeepNoBodies()
	push := pusher(t, s, f)
	push("10.0.0.1")
	push("10.0.0.2")
	before := time.Now().UnixNano()
	must.OK(t, must.Err(f.Announce([]record.Marker{{Type: "eds", Resource: "a", Text: "10.0.0.1"}})))
	if m := f.Sightings(0)[0]; m.SearchedFromNS == 0 || m.SearchedFromNS > before || m.Unknown != 0 {
		t.Errorf("%+v", m)
	}
	push("10.0.0.1") // seen before, not kept: the marker may be in it
	if m := f.Sightings(0)[0]; len(m.Proxy) != 0 || m.Unknown != 1 {
		t.Errorf("%+v", m)
	}
	push("10.0.0.3")
	if m := f.Sightings(0)[0]; m.Unknown != 1 {
		t.Errorf("a new content can be searched: %+v", m)
	}
}
