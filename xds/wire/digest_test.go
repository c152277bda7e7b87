package wire_test

import (
	"hash/maphash"
	"testing"

	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"pgregory.net/rapid"

	"github.com/meshmark/meshmark/xds/wire"
)

// TestDigest: the order in which the entries of a cluster's metadata come is
// of no matter, everything else is.
func TestDigest(t *testing.T) {
	seed := maphash.MakeSeed()
	digest := func(typeURL string, b []byte) uint64 {
		return wire.Digest(typeURL, b, func(b []byte) uint64 { return maphash.Bytes(seed, b) })
	}
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z]{1,8}`), 2, 8, rapid.ID[string]).Draw(t, "names")
		head := marshalIn(t, testCluster("a", rapid.StringMatching(`[a-z]{1,8}`).Draw(t, "service")))
		// Metadata entry by entry, in two orders.
		body := func(order []string, change string) []byte {
			var fields []byte
			for _, name := range order {
				one := marshalIn(t, &structpb.Struct{Fields: map[string]*structpb.Value{name: structpb.NewStringValue(name + change)}})
				fields = append(fields, one...)
			}
			entry := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "istio")
			entry = protowire.AppendBytes(protowire.AppendTag(entry, 2, protowire.BytesType), fields)
			meta := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), entry)
			out := append([]byte(nil), head...)
			out = protowire.AppendBytes(protowire.AppendTag(out, 25, protowire.BytesType), meta)
			return append(out, marshalIn(t, &cluster.Cluster{AltStatName: "x"})...)
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
		renamed := append(append([]byte(nil), one...), marshalIn(t, &cluster.Cluster{AltStatName: "y"})...)
		if digest(wire.ClusterType, one) == digest(wire.ClusterType, renamed) {
			t.Fatal("another cluster, the same digest")
		}
		cut := one[:len(one)-1]
		if digest(wire.ClusterType, cut) != maphash.Bytes(seed, cut) || digest(wire.EndpointType, one) != maphash.Bytes(seed, one) {
			t.Fatal("what is no cluster is hashed as it is")
		}
	})
}

func marshalIn(t *rapid.T, m proto.Message) []byte {
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
