// Package fidelity says how well a simulated proxy imitates a real one. A
// [Recorder] stands between a discovery client (pilot-agent with Envoy, ztunnel, or
// the simulated proxies of package xds) and istiod, forwards every message
// unchanged, and keeps a [Transcript] of each stream: what the client asked
// for and acknowledged, in which order, and what it was answered, without
// the bodies. [Compare] lays two transcripts side by side and gives the share
// of the client's steps that are the same, and what differs.
//
// Transcripts are YAML that people read and version control keeps.
// [Transcript.Normalise] takes out what no two machines share: addresses,
// versions, names of pods. [NewReplay] makes a server of a transcript, which
// answers a client with resources of the same names and references, so that
// the simulated sidecar is compared with a real agent also where none runs.
package fidelity
