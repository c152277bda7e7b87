// Package xdsserver is a discovery server of our own. It serves a
// [Configuration] that was recorded from a real istiod ([Read], of what a
// simulated sidecar was sent) or made up ([Synthetic]) to any number of streams, delta and state of the
// world, and changes it at will. It exists to find the limits of simulated
// sidecars, which istiod's own cost would hide, and to time them: it notes
// when it sent a change to each stream and when the acknowledgement came.
//
// A response is marshalled once for all streams that get the same one. A
// [Configuration] becomes messages in server.go; a stream's subscriptions
// are shared with all streams that have the same (subscribe.go); a [Push]
// puts a pointer to one message in each stream's queue (stream.go), and the
// stream's goroutine hands the bytes to gRPC as they are.
//
// It is no control plane: it knows no services, pods or policies, computes
// nothing, and every node gets the same.
package xdsserver
