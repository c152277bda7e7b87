// Package xdsserver is a discovery server for tests and benches. It serves a [Configuration], either
// recorded from a real istiod ([Read], of what a simulated sidecar was sent) or synthetic
// ([Synthetic]), to any number of streams, delta and state of the world, and changes it on request
// ([Server.Push]). It records when it wrote a change to each stream.
//
// It is not a control plane: it knows no services, pods or policies, computes nothing, and serves
// the same to every node.
package xdsserver
