// Package xds simulates a fleet of sidecars, gateways and ztunnels: many clients of an
// istiod in one process. They speak the discovery protocol like pilot-agent and Envoy, or
// like ztunnel, but do not keep their own copies of the configuration.
//
// Data flow: a connection has one goroutine, which reads HTTP/2 frames, records when the
// kernel received them, and assembles the messages of each stream. A complete message goes
// to the catalogue, which identifies it by the hash of everything but its nonce: only the
// first proxy that receives a message pays for parsing it (package wire). A proxy holds a
// table from names to contents. Like trees in git, tables are immutable, share their parts,
// and are shared by all proxies that hold the same. A message turns one table into another.
// That step, with the markers it shows, the subscriptions it needs and the resources that
// were sent in vain, is computed once for all proxies that take it. Each proxy only records
// the time, acknowledges, and moves a pointer.
//
// The lock of a connection guards its proxies, with their tables, requests and timers. That
// is why all of them are in one package.
package xds
