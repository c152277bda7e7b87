// Package fidelity tests how well a simulated proxy imitates a real one. A
// Recorder sits between a discovery client (pilot-agent with Envoy, ztunnel, or
// the simulated proxies of package xds) and istiod. It forwards every message
// unchanged and keeps a Transcript of each stream: what the client requested and
// acknowledged, in which order, and what it received, without the bodies. Differences
// compares the client's steps in two transcripts.
//
// Transcripts are YAML for people to read and for version control.
// Normalise removes what differs between machines: addresses,
// versions, names of pods. NewReplay makes a server from a transcript that
// responds with resources of the same names and references, so the simulated
// sidecar can be compared with a real agent even where none runs.
package fidelity
