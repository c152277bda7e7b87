package wire

import (
	"google.golang.org/protobuf/encoding/protowire"
)

// Fields of DeltaDiscoveryRequest.
const (
	deltaNode        = 1
	deltaTypeURL     = 2
	deltaSubscribe   = 3
	deltaUnsubscribe = 4
	deltaInitial     = 5
	deltaNonce       = 6
	deltaError       = 7
)

// Fields of DiscoveryRequest.
const (
	sotwVersion = 1
	sotwNode    = 2
	sotwNames   = 3
	sotwTypeURL = 4
	sotwNonce   = 5
	sotwError   = 6
)

// rejectCode is the google.rpc.Status code with which Envoy rejects any invalid
// configuration (Grpc::Status::Internal in
// source/extensions/config_subscription/grpc).
const rejectCode = 13

// DeltaRequest is a DeltaDiscoveryRequest.
type DeltaRequest struct {
	Node        []byte // encoded; nil after the first request of a stream
	TypeURL     string
	Subscribe   []string
	Unsubscribe []string
	// Initial yields the name and version of every resource held; nil if there
	// is none.
	Initial func(yield func(name, version string) bool)
	Nonce   []byte
	// Error is the reason for rejecting the response with this nonce; ""
	// accepts it.
	Error string
}

// Append appends the encoded request to b.
func (r *DeltaRequest) Append(b []byte) []byte {
	b = appendBytes(b, deltaNode, r.Node)
	b = appendString(b, deltaTypeURL, r.TypeURL)
	for _, name := range r.Subscribe {
		b = protowire.AppendTag(b, deltaSubscribe, protowire.BytesType)
		b = protowire.AppendString(b, name)
	}
	for _, name := range r.Unsubscribe {
		b = protowire.AppendTag(b, deltaUnsubscribe, protowire.BytesType)
		b = protowire.AppendString(b, name)
	}
	if r.Initial != nil {
		for name, version := range r.Initial {
			b = appendMapEntry(b, deltaInitial, name, version)
		}
	}
	b = appendBytes(b, deltaNonce, r.Nonce)
	return appendStatus(b, deltaError, r.Error)
}

// SotWRequest is a DiscoveryRequest.
type SotWRequest struct {
	Version []byte // of the last accepted response
	Node    []byte // encoded; nil after the first request of a stream
	TypeURL string
	Names   []string // empty: all resources
	Nonce   []byte
	Error   string
}

// Append appends the encoded request to b.
func (r *SotWRequest) Append(b []byte) []byte {
	b = appendBytes(b, sotwVersion, r.Version)
	b = appendBytes(b, sotwNode, r.Node)
	for _, name := range r.Names {
		b = protowire.AppendTag(b, sotwNames, protowire.BytesType)
		b = protowire.AppendString(b, name)
	}
	b = appendString(b, sotwTypeURL, r.TypeURL)
	b = appendBytes(b, sotwNonce, r.Nonce)
	return appendStatus(b, sotwError, r.Error)
}

func appendBytes(b []byte, num protowire.Number, value []byte) []byte {
	if len(value) == 0 {
		return b
	}
	return protowire.AppendBytes(protowire.AppendTag(b, num, protowire.BytesType), value)
}

func appendString(b []byte, num protowire.Number, value string) []byte {
	if value == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, num, protowire.BytesType), value)
}

// appendMapEntry appends an entry of a map<string, string>.
func appendMapEntry(b []byte, num protowire.Number, key, value string) []byte {
	size := protowire.SizeTag(1) + protowire.SizeBytes(len(key))
	if value != "" {
		size += protowire.SizeTag(2) + protowire.SizeBytes(len(value))
	}
	b = protowire.AppendTag(b, num, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(size))
	b = protowire.AppendString(protowire.AppendTag(b, 1, protowire.BytesType), key)
	return appendString(b, 2, value)
}

// appendStatus appends a google.rpc.Status.
func appendStatus(b []byte, num protowire.Number, message string) []byte {
	if message == "" {
		return b
	}
	b = protowire.AppendTag(b, num, protowire.BytesType)
	size := protowire.SizeTag(1) + protowire.SizeVarint(rejectCode) + protowire.SizeTag(2) + protowire.SizeBytes(len(message))
	b = protowire.AppendVarint(b, uint64(size))
	b = protowire.AppendVarint(protowire.AppendTag(b, 1, protowire.VarintType), rejectCode)
	return protowire.AppendString(protowire.AppendTag(b, 2, protowire.BytesType), message)
}
