// Package wire reads and writes messages of the discovery protocol as bytes.
// It walks the protobuf encoding for the few fields that a simulated sidecar
// needs (names, bodies, what was removed, which clusters want endpoints and
// which listeners want routes) and never builds a message, so that a response
// of a megabyte costs some microseconds and no memory of its own: what it
// returns are slices of its input.
//
// The field numbers are those of envoy/service/discovery/v3/discovery.proto,
// envoy/config/core/v3/base.proto, envoy/config/cluster/v3/cluster.proto,
// envoy/config/listener/v3/listener.proto and
// envoy/extensions/filters/network/http_connection_manager/v3.
//
// Input is not trusted: whatever is cut short, too many or of the wrong kind
// is an error that wraps [ErrMalformed].
package wire
