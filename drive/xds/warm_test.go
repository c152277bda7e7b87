package xds_test

import (
	"slices"
	"testing"
	"time"

	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/meshtrial/meshtrial/drive/xds"
	"github.com/meshtrial/meshtrial/drive/xds/wire"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/eventually"
	"github.com/meshtrial/meshtrial/testing/must"
)

func clusters(names ...string) map[string]proto.Message {
	out := map[string]proto.Message{}
	for _, name := range names {
		out[name] = &cluster.Cluster{Name: name, ClusterDiscoveryType: &cluster.Cluster_Type{Type: cluster.Cluster_EDS}}
	}
	return out
}

func assignments(names ...string) map[string]proto.Message {
	out := map[string]proto.Message{}
	for _, name := range names {
		out[name] = &endpoint.ClusterLoadAssignment{ClusterName: name}
	}
	return out
}

// These events end the wait of an acknowledgement of new clusters.
func TestHeldACKs(t *testing.T) {
	type push struct {
		typeURL   string
		resources map[string]proto.Message
		removed   []string
	}
	cds := func(removed []string, names ...string) push {
		return push{wire.ClusterType, clusters(names...), removed}
	}
	eds := func(removed []string, names ...string) push {
		return push{wire.EndpointType, assignments(names...), removed}
	}
	none := []string(nil)
	for _, c := range []struct {
		name   string
		before []push // nothing may be acknowledged after these
		last   push   // everything must be acknowledged after this
	}{
		{"its endpoints come", []push{cds(none, "b")}, eds(none, "b")},
		{"with those of others", []push{cds(none, "b")}, eds(none, "a", "b")},
		{"others alone do not count", []push{cds(none, "b"), eds(none, "a")}, eds(none, "b")},
		{"an empty response does not count", []push{cds(none, "b"), eds(none)}, eds(none, "b")},
		{"there are no such endpoints", []push{cds(none, "b")}, eds([]string{"b"})},
		{"endpoints of another vanish meanwhile", []push{cds(none, "b"), eds([]string{"a"})}, eds(none, "b")},
		{"the cluster is gone", []push{cds(none, "b")}, cds([]string{"b"})},
		{"one is gone, the other comes", []push{cds(none, "b", "c"), cds([]string{"b"})}, eds(none, "c")},
		{"one comes, the other is gone", []push{cds(none, "b", "c"), eds(none, "c")}, cds([]string{"b"})},
		{"one more cluster", []push{cds(none, "b"), cds(none, "c"), eds(none, "b")}, eds(none, "c")},
		{"an old cluster goes", []push{cds(none, "b"), cds([]string{"a"})}, eds(none, "b")},
		{"gone and back", []push{cds(none, "b", "c"), cds([]string{"b"}), cds(none, "b"), eds(none, "c")}, eds(none, "b")},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newFake(t)
			f := start(t, testSpec(s.address, 1))
			synced(t, f)
			one := s.live()[0]
			acks := func(typeURL string) (n int) {
				for _, r := range one.requests() {
					if r.typeURL == typeURL && r.nonce != "" {
						n++
					}
				}
				return n
			}
			eventually.Holds(t, "the first ACKs", func() bool { return len(one.requests()) == 8 })
			first, responses := acks(wire.ClusterType), 0
			send := func(p push) {
				// A listener's ACK shows that earlier responses were handled.
				s.push(1, p.typeURL, p.resources, p.removed...)
				if p.typeURL == wire.ClusterType {
					responses++
				}
				before := acks(wire.ListenerType)
				s.push(1, wire.ListenerType, nil)
				eventually.Holds(t, "a listener's ACK", func() bool { return acks(wire.ListenerType) > before })
			}
			for _, p := range c.before {
				send(p)
				// The fake answers a new subscription with nothing.
				if n := acks(wire.ClusterType); n != first {
					t.Fatalf("%d ACKs of clusters too early", n-first)
				}
			}
			send(c.last)
			eventually.Holds(t, "all ACKs", func() bool { return acks(wire.ClusterType) == first+responses })
		})
	}
}

// Endpoints that never arrive hold an acknowledgement only for a while.
func TestNoACKIsHeldForEver(t *testing.T) {
	for _, mode := range []string{xds.ModeDelta, xds.ModeSotW} {
		t.Run(mode, func(t *testing.T) {
			s := newFake(t)
			spec := testSpec(s.address, 2)
			spec.Mode = mode
			f := start(t, spec)
			f.LimitWarming(50 * time.Millisecond)
			synced(t, f)
			must.OK(t, must.Err(f.Announce([]record.Marker{{Change: 1, Type: "cds", Text: "late"}, {Change: 2, Type: "cds", Text: "later"}})))
			acked := func(marker int) bool {
				one := f.Sightings(marker)[0]
				return len(one.AckedNS) == 2 && !slices.Contains(one.AckedNS, record.Never)
			}
			// Twice: the second is held after the first one's timer.
			s.push(2, wire.ClusterType, clusters("a", "late"))
			eventually.Holds(t, "the first to be acknowledged", func() bool { return acked(0) })
			s.push(2, wire.ClusterType, clusters("a", "late", "later"))
			eventually.Holds(t, "the second to be acknowledged", func() bool { return acked(1) })
		})
	}
}

// An acknowledgement survives the end of its stream.
func TestHeldACKOutlivesItsStream(t *testing.T) {
	s := newFake(t)
	f := start(t, testSpec(s.address, 1))
	synced(t, f)
	must.OK(t, must.Err(f.Announce([]record.Marker{{Change: 1, Type: "cds", Text: "late"}})))
	s.push(1, wire.ClusterType, clusters("late"))
	eventually.Holds(t, "the marker", func() bool { return len(f.Sightings(0)[0].Proxy) == 1 })
	if at := f.Sightings(0)[0].AckedNS[0]; at != record.Never {
		t.Fatalf("acknowledged at %d without endpoints", at)
	}
	s.live()[0].end <- status.Error(codes.Unavailable, "gone")
	eventually.Holds(t, "its ACK on the next stream", func() bool { return f.Sightings(0)[0].AckedNS[0] > 0 })
}
