// Package stream is a gRPC client for very many long-lived streams. An HTTP/2
// connection has one goroutine and serves any number of streams, an idle stream
// takes some hundred bytes, and messages are passed on as raw bytes in reused
// buffers.
//
// It exists because grpc-go keeps several goroutines and buffers for every stream,
// which would be most of the cost of a simulated sidecar. It implements the parts
// of RFC 9113 and gRPC over HTTP/2
// (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md) that a
// streaming client needs: flow control in both directions, pings, settings,
// GOAWAY, trailers. It has no compression, retries or unary calls.
//
// A connection does everything under its lock, including callbacks of a [Handler].
// Callbacks may call any method of their stream, but must not wait for another
// goroutine that may want the lock of a connection.
package stream
