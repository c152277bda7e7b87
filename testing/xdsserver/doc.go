// Package xdsserver is our own discovery server. It serves a [Configuration], either recorded from
// a real istiod ([Read], of what a simulated sidecar was sent) or synthetic ([Synthetic]), to any
// number of streams, delta and state of the world, and changes it on request. It exists to find the
// limits of simulated sidecars, which istiod's own cost would hide, and to time them: it records
// when it sent a change to each stream and when the acknowledgement arrived.
//
// A response is marshalled once for all streams that get the same one. A [Configuration] becomes
// messages in server.go. Streams with equal subscriptions share them (subscribe.go). A [Push] puts
// a pointer to one message in each stream's queue (stream.go), and the stream's goroutine passes
// the bytes to gRPC unchanged.
//
// It is not a control plane: it knows no services, pods or policies, computes nothing, and serves
// the same to every node.
package xdsserver
