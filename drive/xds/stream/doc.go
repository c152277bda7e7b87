// Package stream is a gRPC client for a great many long-lived streams: an
// HTTP/2 connection has one goroutine and serves any number of streams, a
// stream that waits costs some hundred bytes, and messages are handed over
// as the bytes they are, in a buffer that is used again.
//
// It exists because a general gRPC library keeps several goroutines and
// buffers for every stream, which would be most of what a simulated sidecar
// costs. It follows RFC 9113 and gRPC over HTTP/2
// (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md) as far as
// a client of streams needs: flow control both ways, pings, settings,
// GOAWAY, trailers. No compression, no retries, no unary calls.
//
// Everything a connection does happens under its lock: callbacks of a
// [Handler] too, which may therefore call any method of their stream, but
// must not wait for anybody who might want another connection's lock.
package stream
