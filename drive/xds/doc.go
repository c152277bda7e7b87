// Package xds is a fleet of simulated sidecars, gateways and ztunnels: many clients of an
// istiod in one process. They speak the discovery protocol as pilot-agent and Envoy, or
// ztunnel, do, but keep no configuration of their own.
//
// Data passes through as follows. A connection has one goroutine, which reads HTTP/2
// frames, notes when the kernel received them, and collects the messages of each stream.
// A complete message goes to the catalogue, which identifies it by the hash of everything
// but its nonce: only the first proxy that receives a message pays for parsing it (package
// wire). A proxy holds a table from names to contents. Like trees in git, tables are
// immutable, share their parts and exist once for all proxies that hold the same. A message
// turns one table into another. That step, with the markers it shows, the subscriptions it
// needs and the resources that were sent in vain, is computed once for all proxies that
// take it. Each proxy only notes the time, acknowledges, and moves a pointer.
//
// A proxy, its tables, requests and timers belong to whoever holds the lock of its
// connection, which is why they are one package.
package xds
