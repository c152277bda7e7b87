package xds

import (
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// FuzzChain checks that any answer of an authority is a chain or an error.
func FuzzChain(f *testing.F) {
	good := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "leaf")
	good = protowire.AppendVarint(protowire.AppendTag(good, 9, protowire.VarintType), 7)
	good = protowire.AppendString(protowire.AppendTag(good, 1, protowire.BytesType), "root\n")
	if chain, err := parseChain(good); err != nil || len(chain) != 2 || chain[0] != "leaf\n" || chain[1] != "root\n" {
		f.Fatal(chain, err)
	}
	f.Add(good)
	f.Add([]byte{})
	f.Add([]byte{10, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		if chain, err := parseChain(b); (err == nil) == (len(chain) == 0) {
			t.Errorf("%q, %v", chain, err)
		}
	})
}
