// Package xds is a fleet of simulated sidecars, gateways and ztunnels: as many clients
// of an istiod as asked for, in one process, that speak the discovery
// protocol as pilot-agent and Envoy, or ztunnel, do but keep no configuration of their
// own.
//
// Data passes through as follows. A connection has one goroutine, which
// reads HTTP/2 frames and notes when the kernel handed them over; the bytes
// of a message are collected for its stream. A whole message goes to the
// catalogue, which knows it by the hash of all of it but its nonce: only the
// first proxy that gets a message pays for walking it (package wire). What
// a proxy holds is a table from names to contents; tables, like trees in
// git, are immutable, share their parts and exist once for all proxies that
// hold the same. A message turns one table into another, and that step, with
// the markers it shows, what has to be subscribed and what was sent in vain,
// is worked out once for all proxies that make it. What is left for each
// proxy is to note the time, to acknowledge, and to move a pointer.
//
// Size: a proxy, its tables, its requests and its timers belong to whoever holds
// its connection's lock, so that no boundary may run between them.
package xds
