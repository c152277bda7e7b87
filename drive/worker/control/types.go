package control

import (
	"sort"

	"github.com/meshtrial/meshtrial/study/protocol"
)

// Schema is the version of the documents.
const Schema = 1

// Default ports of a worker, beside those of its protocols, and limits.
const (
	ControlPort  = 15990 // on 127.0.0.1 only
	HealthPort   = 8079  // readiness, apart so that probes do not touch the measured ports
	EchoBody     = -1    // ResponseBytes: answer with the request's own body
	MaxResponse  = 64 << 20
	MaxServiceUS = 60e6
	MaxSamples   = 1 << 20
	MaxMessage   = 1 << 20 // of TCPMessageBytes
	MaxSigma     = 5
)

// OTLPLogs is a service that a worker takes part in as a sink of access logs
// (opentelemetry-proto, collector/logs/v1): it counts what comes.
const OTLPLogs = "opentelemetry.proto.collector.logs.v1.LogsService"

// Distributions of service time.
const (
	None        = "none"
	Fixed       = "fixed"
	Exponential = "exponential"
	Lognormal   = "lognormal"
	Recorded    = "recorded"
)

// Config is a worker's behaviour.
type Config struct {
	Schema int `json:"schema,omitempty"`
	// Version counts changes. A POST carries the version it replaces and is
	// refused (409) if another change came first.
	Version int64 `json:"version"`
	// ResponseBytes is the size of each answer's body; EchoBody (-1) answers
	// with the request's own. TCP always echoes.
	ResponseBytes int64 `json:"response_bytes"`
	// TCPMessageBytes is how many bytes make one TCP request; 0 takes
	// whatever a read returns as one.
	TCPMessageBytes int64       `json:"tcp_message_bytes"`
	ServiceTime     ServiceTime `json:"service_time"`

	// Concurrency is how many requests are served at once over all protocols,
	// from the begin of their service time to the last call; 0 bounds nothing.
	// Queue more may wait for a place in their order; who finds the queue full
	// is refused with 503.
	Concurrency int `json:"concurrency,omitempty"`
	Queue       int `json:"queue,omitempty"`
	// BurnUS is CPU time spent on each request, in microseconds, within its
	// service time if that is longer.
	BurnUS float64 `json:"burn_us,omitempty"`
	// MemoryBytes are held, and written to, as long as this is in force.
	MemoryBytes int64 `json:"memory_bytes,omitempty"`
	// Calls are made to other workers before the answer: one after the other
	// or, with Parallel, all at once.
	Calls    []Call `json:"calls,omitempty"`
	Parallel bool   `json:"parallel,omitempty"`
	// Failures take their shares of the requests, the first entry first.
	Failures []Failure `json:"failures,omitempty"`
	// NotReady turns /readyz to 503.
	NotReady bool  `json:"not_ready,omitempty"`
	Drain    Drain `json:"drain,omitzero"`
	// LogRequests is how many of the last requests with an x-request-id are
	// remembered for GET /v1/requests; 0: none.
	LogRequests int `json:"log_requests,omitempty"`
}

// ServiceTime is how long the worker holds each request before it answers.
type ServiceTime struct {
	Distribution string `json:"distribution"` // None (default), Fixed, Exponential, Lognormal, Recorded
	// MeanUS is the mean in microseconds (Fixed: the value).
	MeanUS float64 `json:"mean_us,omitempty"`
	// Sigma is Lognormal's shape, the standard deviation of the logarithm;
	// its mean stays MeanUS.
	Sigma float64 `json:"sigma,omitempty"`
	// SamplesUS are the recorded times in microseconds, drawn from at
	// random with replacement (Recorded).
	SamplesUS []float64 `json:"samples_us,omitempty"`
	// MaxUS cuts the tail off: longer draws take this long. 0: 60 s.
	MaxUS float64 `json:"max_us,omitempty"`
	// Seed makes the sequence of draws repeatable.
	Seed uint64 `json:"seed,omitempty"`
}

// Counters are what a worker served since it started.
type Counters struct {
	Schema    int   `json:"schema"`
	UnixNS    int64 `json:"unix_ns"` // when they were read
	StartedNS int64 `json:"started_unix_ns"`
	// Protocols are by [protocol.Counters]. Requests count by what was spoken,
	// connections by the port they came to: HTTP/1.1 on the HTTP/2 port shows
	// as requests of http1 on connections of http2.
	Protocols map[string]ProtocolCounters `json:"protocols"`
	// InFlight is how many requests are being served.
	InFlight int64 `json:"in_flight"`
	// ServiceTimeS is the sum of what the distribution asked for, HeldS the
	// sum of how long requests were really held; HeldRequests is their number.
	ServiceTimeS float64 `json:"service_time_s"`
	HeldS        float64 `json:"held_s"`
	HeldRequests int64   `json:"held_requests"`
	// Waiting is how many requests are in the queue, Overflowed how many were
	// refused because it was full.
	Waiting    int64 `json:"waiting"`
	Overflowed int64 `json:"overflowed"`
	// Planted has the requests that failed because the configuration said so,
	// by the Fail constants.
	Planted map[string]int64 `json:"planted_failures,omitempty"`
	// Calls are those made to others, by their name.
	Calls map[string]CallCounters `json:"calls,omitempty"`
	CPU   CPU                     `json:"cpu_s"` // the worker's own, by getrusage
}

// ProtocolCounters count one protocol.
type ProtocolCounters struct {
	Requests     int64            `json:"requests"` // answered or refused
	Status       map[string]int64 `json:"status"`   // by HTTP status or gRPC code name; TCP: "ok", "error"
	BytesIn      int64            `json:"bytes_in"` // bodies
	BytesOut     int64            `json:"bytes_out"`
	Connections  int64            `json:"connections"` // accepted
	Open         int64            `json:"open"`
	Refused      int64            `json:"refused"`        // connections over the limit
	Handshakes   int64            `json:"tls_handshakes"` // the worker's own TLS
	ClientCert   int64            `json:"client_cert"`    // requests with x-forwarded-client-cert: proof of mTLS through sidecars
	ThroughProxy int64            `json:"through_proxy"`  // requests with x-request-id or an x-envoy header
	LuaHeader    int64            `json:"lua_header"`     // requests with x-meshtrial-lua: proof of a sidecar's Lua script
	WasmHeader   int64            `json:"wasm_header"`    // requests with x-meshtrial-wasm: proof of its Wasm filter
}

// CPU is processor time in seconds.
type CPU struct {
	User   float64 `json:"user"`
	System float64 `json:"system"`
}

// Flat gives the counters names for a trial's record and for a mesh's
// checks: sums over all protocols ("requests", "connections", "client_cert",
// "through_proxy", "bytes_in", "bytes_out", "refused", "errors",
// "tls_handshakes", "lua_header", "wasm_header") and the same with a protocol before
// it ("http1.requests"), and "http1.status.200".
func (c Counters) Flat() map[string]float64 {
	out := map[string]float64{}
	for name, p := range c.Protocols {
		for key, value := range map[string]int64{
			"requests": p.Requests, "bytes_in": p.BytesIn, "bytes_out": p.BytesOut,
			"connections": p.Connections, "refused": p.Refused, "tls_handshakes": p.Handshakes,
			"client_cert": p.ClientCert, "through_proxy": p.ThroughProxy,
			"lua_header": p.LuaHeader, "wasm_header": p.WasmHeader,
		} {
			out[key] += float64(value)
			out[name+"."+key] = float64(value)
		}
		out["errors"] += 0
		for status, n := range p.Status {
			out[name+".status."+status] = float64(n)
			if !protocol.Succeeded(status) {
				out["errors"] += float64(n)
			}
		}
	}
	return out
}

// Since returns how far Flat's counters rose from earlier to c, with an error
// if the worker restarted in between.
func (c Counters) Since(earlier Counters) (map[string]float64, error) {
	if c.StartedNS != earlier.StartedNS {
		return nil, errRestarted
	}
	now, before := c.Flat(), earlier.Flat()
	for key := range now {
		now[key] -= before[key]
	}
	return now, nil
}

// StatusNames returns the keys of a status map in order.
func StatusNames(status map[string]int64) []string {
	names := make([]string, 0, len(status))
	for name := range status {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}
