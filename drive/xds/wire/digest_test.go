package wire_test

import (
	"slices"
	"testing"

	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"pgregory.net/rapid"

	"github.com/meshtrial/meshtrial/drive/xds/wire"
)

// TestDigest checks that the order of a cluster's metadata entries does not
// matter, and that everything else does.
func TestDigest(t *testing.T) {
	digest := func(typeURL string, b []byte) uint64 { return wire.Digest(typeURL, b, hash) }
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z]{1,8}`), 2, 8, rapid.ID[string]).Draw(t, "names")
		head := marshal(t, testCluster("a", rapid.StringMatching(`[a-z]{1,8}`).Draw(t, "service")))
		// Metadata entry by entry, in two orders.
		body := func(order []string, change string) []byte {
			var fields []byte
			for _, name := range order {
				one := marshal(t, &structpb.Struct{Fields: map[string]*structpb.Value{name: structpb.NewStringValue(name + change)}})
				fields = append(fields, one...)
			}
			entry := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "istio")
			entry = protowire.AppendBytes(protowire.AppendTag(entry, 2, protowire.BytesType), fields)
			meta := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), entry)
			out := append([]byte(nil), head...)
			out = protowire.AppendBytes(protowire.AppendTag(out, 25, protowire.BytesType), meta)
			return append(out, marshal(t, &cluster.Cluster{AltStatName: "x"})...)
		}
		one, other := body(names, ""), body(rapid.Permutation(names).Draw(t, "order"), "")
		var a, b cluster.Cluster
		if proto.Unmarshal(one, &a) != nil || proto.Unmarshal(other, &b) != nil || !proto.Equal(&a, &b) {
			t.Fatal("the test's clusters are not the same")
		}
		if digest(wire.ClusterType, one) != digest(wire.ClusterType, other) {
			t.Fatal("the same cluster has two digests")
		}
		if digest(wire.ClusterType, one) == digest(wire.ClusterType, body(names, "!")) {
			t.Fatal("other metadata, the same digest")
		}
		renamed := append(append([]byte(nil), one...), marshal(t, &cluster.Cluster{AltStatName: "y"})...)
		if digest(wire.ClusterType, one) == digest(wire.ClusterType, renamed) {
			t.Fatal("another cluster, the same digest")
		}
		cut := one[:len(one)-1]
		if digest(wire.ClusterType, cut) != hash(cut) || digest(wire.ListenerType, one) != hash(one) {
			t.Fatal("what has no metadata that is looked for is hashed as it is")
		}
	})
}

// TestDigestOfEndpoints checks that the metadata of each endpoint may be in any
// order, but not the endpoints.
func TestDigestOfEndpoints(t *testing.T) {
	digest := func(b []byte) uint64 { return wire.Digest(wire.EndpointType, b, hash) }
	field := func(b []byte, n protowire.Number, v []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), v)
	}
	entry := func(key, value string) []byte {
		one := marshal(t, &structpb.Struct{Fields: map[string]*structpb.Value{"k": structpb.NewStringValue(value)}})
		return field(nil, 1, field(field(nil, 1, []byte(key)), 2, one))
	}
	lb := func(address string, entries ...[]byte) []byte {
		out := field(nil, 1, field(nil, 1, field(nil, 1, field(nil, 2, []byte(address)))))
		return protowire.AppendVarint(protowire.AppendTag(field(out, 3, slices.Concat(entries...)), 2, protowire.VarintType), 1)
	}
	body := func(all ...[]byte) []byte {
		var group []byte
		for _, one := range all {
			group = field(group, 2, one)
		}
		return field(field(nil, 1, []byte("outbound|80||a")), 2, group)
	}
	istio, match := entry("istio", "w"), entry("envoy.transport_socket_match", "tls")
	one := body(lb("10.0.0.1", istio, match), lb("10.0.0.2", match, istio))
	for _, c := range []struct {
		name  string
		other []byte
		same  bool
	}{
		{"itself", one, true},
		{"metadata in another order", body(lb("10.0.0.1", match, istio), lb("10.0.0.2", istio, match)), true},
		{"endpoints in another order", body(lb("10.0.0.2", match, istio), lb("10.0.0.1", istio, match)), false},
		{"another address", body(lb("10.0.0.1", istio, match), lb("10.0.0.3", match, istio)), false},
		{"other metadata", body(lb("10.0.0.1", istio, match), lb("10.0.0.2", match, entry("istio", "v"))), false},
		{"metadata moved", body(lb("10.0.0.1", istio), lb("10.0.0.2", match, match, istio)), false},
		{"an endpoint less", body(lb("10.0.0.1", istio, match)), false},
		{"an endpoint twice", body(lb("10.0.0.1", istio, match), lb("10.0.0.2", match, istio), lb("10.0.0.2", match, istio)), false},
	} {
		var m endpoint.ClusterLoadAssignment
		if err := proto.Unmarshal(c.other, &m); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if same := digest(one) == digest(c.other); same != c.same {
			t.Errorf("%s: the same digest: %v", c.name, same)
		}
	}
}
