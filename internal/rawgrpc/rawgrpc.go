// Package rawgrpc is gRPC without a message format: messages are bytes, which
// the generator, the workload, and the discovery server and recorder encode and
// decode themselves or only pass on. Give a [Codec] to grpc.ForceCodecV2 or
// grpc.ForceServerCodecV2, and a *[Message] to SendMsg, RecvMsg and Invoke.
package rawgrpc

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
)

// Message is the content of one gRPC message.
type Message struct {
	Body []byte
	// Size is the size of a received message, in bytes. If SizeOnly was set
	// beforehand, only the size is kept and nothing is copied.
	Size     int64
	SizeOnly bool
	// Keep, if not nil, decides that once the message has arrived.
	Keep func() bool
}

// Codec passes bytes through. It has the usual codec's name, so calls carry the
// usual content type and proxies see ordinary gRPC.
type Codec struct{}

var _ encoding.CodecV2 = Codec{}

// Name implements [encoding.CodecV2].
func (Codec) Name() string { return "proto" }

// Marshal implements [encoding.CodecV2].
func (Codec) Marshal(v any) (mem.BufferSlice, error) {
	message, ok := v.(*Message)
	if !ok {
		return nil, fmt.Errorf("raw gRPC: cannot send a %T", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(message.Body)}, nil
}

// Unmarshal implements [encoding.CodecV2].
func (Codec) Unmarshal(data mem.BufferSlice, v any) error {
	message, ok := v.(*Message)
	if !ok {
		return fmt.Errorf("raw gRPC: cannot receive a %T", v)
	}
	message.Size = int64(data.Len())
	if message.Keep != nil {
		message.SizeOnly = !message.Keep()
	}
	if !message.SizeOnly {
		message.Body = data.Materialize()
	}
	return nil
}
