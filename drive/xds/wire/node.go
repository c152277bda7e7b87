package wire

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// Fields of envoy.config.core.v3.Node and of google.protobuf.Struct.
const (
	nodeID         = 1
	nodeCluster    = 2
	nodeMetadata   = 3
	nodeAgentName  = 6
	nodeFeatures   = 10
	structFields   = 1
	valueNumber    = 2
	valueString    = 3
	valueBool      = 4
	valueStruct    = 5
	valueList      = 6
	listValues     = 1
	maxMetadataDep = 20
)

// Node is an envoy.config.core.v3.Node.
type Node struct {
	ID       string
	Cluster  string
	Metadata map[string]any // of strings, numbers, booleans, lists and maps
	// Agent is the user agent name; "" for none.
	Agent string
	// Features are the client features of the proxy.
	Features []string
}

// Append appends the encoded node to b.
func (n *Node) Append(b []byte) ([]byte, error) {
	b = appendString(b, nodeID, n.ID)
	b = appendString(b, nodeCluster, n.Cluster)
	meta, err := appendStruct(nil, n.Metadata, 0)
	if err != nil {
		return nil, fmt.Errorf("metadata of node %s: %w", n.ID, err)
	}
	b = protowire.AppendBytes(protowire.AppendTag(b, nodeMetadata, protowire.BytesType), meta)
	b = appendString(b, nodeAgentName, n.Agent)
	for _, f := range n.Features {
		b = appendString(b, nodeFeatures, f)
	}
	return b, nil
}

// appendStruct appends the fields of a google.protobuf.Struct, sorted.
func appendStruct(b []byte, fields map[string]any, depth int) ([]byte, error) {
	if depth > maxMetadataDep {
		return nil, fmt.Errorf("nested deeper than %d", maxMetadataDep)
	}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		value, err := appendValue(nil, fields[key], depth)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		size := protowire.SizeTag(1) + protowire.SizeBytes(len(key)) + protowire.SizeTag(2) + protowire.SizeBytes(len(value))
		b = protowire.AppendTag(b, structFields, protowire.BytesType)
		b = protowire.AppendVarint(b, uint64(size))
		b = protowire.AppendString(protowire.AppendTag(b, 1, protowire.BytesType), key)
		b = protowire.AppendBytes(protowire.AppendTag(b, 2, protowire.BytesType), value)
	}
	return b, nil
}

// appendValue appends a google.protobuf.Value.
func appendValue(b []byte, value any, depth int) ([]byte, error) {
	switch v := value.(type) {
	case string:
		return protowire.AppendString(protowire.AppendTag(b, valueString, protowire.BytesType), v), nil
	case bool:
		return protowire.AppendVarint(protowire.AppendTag(b, valueBool, protowire.VarintType), protowire.EncodeBool(v)), nil
	case int:
		return appendNumber(b, float64(v)), nil
	case float64:
		return appendNumber(b, v), nil
	case json.Number:
		f, err := v.Float64()
		return appendNumber(b, f), err
	case map[string]any:
		inner, err := appendStruct(nil, v, depth+1)
		return protowire.AppendBytes(protowire.AppendTag(b, valueStruct, protowire.BytesType), inner), err
	case map[string]string:
		fields := make(map[string]any, len(v))
		for key, text := range v {
			fields[key] = text
		}
		return appendValue(b, fields, depth)
	case []any:
		var list []byte
		for _, item := range v {
			one, err := appendValue(nil, item, depth+1)
			if err != nil {
				return nil, err
			}
			list = protowire.AppendBytes(protowire.AppendTag(list, listValues, protowire.BytesType), one)
		}
		return protowire.AppendBytes(protowire.AppendTag(b, valueList, protowire.BytesType), list), nil
	}
	return nil, fmt.Errorf("a %T has no place in metadata", value)
}

func appendNumber(b []byte, v float64) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(b, valueNumber, protowire.Fixed64Type), math.Float64bits(v))
}
