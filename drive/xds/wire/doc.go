// Package wire reads and writes messages of the discovery protocol as bytes.
// It walks the protobuf encoding for the few fields that a simulated sidecar
// needs (names, bodies, removals, clusters with EDS endpoints and listeners with
// RDS routes) and never builds a message. Reading a response of a megabyte takes
// some microseconds and allocates no memory: results are slices of the input.
//
// The field numbers are those of envoy/service/discovery/v3/discovery.proto,
// envoy/config/core/v3/base.proto, envoy/config/cluster/v3/cluster.proto,
// envoy/config/listener/v3/listener.proto and
// envoy/extensions/filters/network/http_connection_manager/v3.
//
// Input is not trusted: truncated messages, wrong field types and counts above the
// limits are errors that wrap [ErrMalformed].
package wire
