package wire

import "google.golang.org/protobuf/encoding/protowire"

// metadataPaths are the fields that istiod fills from maps, in random order: the
// metadata of a Cluster, and of each LbEndpoint of a ClusterLoadAssignment. A
// path has a field number for each level.
var metadataPaths = map[string][]protowire.Number{
	ClusterType:  {25},
	EndpointType: {2, 2, 3},
}

// maxDepth limits the nesting depth that Digest reads.
const maxDepth = 16

// Digest hashes a resource's body so that equivalent bodies have equal digests.
// Envoy compares resources the same way: a cluster or endpoint has not changed
// if only the order of its metadata differs, which is random in istiod.
func Digest(typeURL string, body []byte, hash func([]byte) uint64) uint64 {
	path := metadataPaths[typeURL]
	if len(path) == 0 {
		return hash(body)
	}
	return along(path, body, hash)
}

// along hashes a message in order, except for the fields that a path leads to.
func along(path []protowire.Number, b []byte, hash func([]byte) uint64) uint64 {
	var sum uint64
	c := cursor{b: b, what: "resource"}
	from := 0 // start of the bytes not hashed yet
	for {
		before := c.at
		f, ok, err := c.next()
		if err != nil {
			return hash(b)
		}
		if ok && (f.num != path[0] || f.kind != protowire.BytesType) {
			continue
		}
		if before > from {
			sum = scramble(sum ^ hash(b[from:before]))
		}
		if !ok {
			return sum
		}
		if from = c.at; len(path) > 1 {
			sum = scramble(sum ^ along(path[1:], f.bytes, hash))
		} else {
			sum = scramble(sum ^ unordered(f.bytes, hash, 0))
		}
	}
}

// unordered hashes a message regardless of the order of its fields, at any
// depth. Bytes that are not a message are hashed as they are.
func unordered(b []byte, hash func([]byte) uint64, depth int) uint64 {
	if len(b) == 0 || depth > maxDepth {
		return hash(b)
	}
	var sum uint64
	c := cursor{b: b, what: "metadata"}
	for {
		before := c.at
		f, ok, err := c.next()
		if err != nil {
			return hash(b)
		}
		if !ok {
			return sum
		}
		if f.kind != protowire.BytesType {
			sum += scramble(hash(b[before:c.at]))
			continue
		}
		sum += scramble(unordered(f.bytes, hash, depth+1) ^ uint64(f.num))
	}
}

// scramble spreads bits (the finaliser of splitmix64).
func scramble(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
