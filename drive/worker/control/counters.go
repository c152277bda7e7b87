package control

import (
	"errors"

	"github.com/meshtrial/meshtrial/study/protocol"
)

// Counters count what a worker served since it started.
type Counters struct {
	Schema    int   `json:"schema"`
	UnixNS    int64 `json:"unix_ns"` // when they were read
	StartedNS int64 `json:"started_unix_ns"`
	// Protocols has [protocol.Counters]. Requests are counted by the protocol
	// spoken, connections by port: HTTP/1.1 on the HTTP/2 port counts as requests
	// of http1 on connections of http2.
	Protocols map[string]ProtocolCounters `json:"protocols"`
	// InFlight is the number of requests being served.
	InFlight int64 `json:"in_flight"`
	// ServiceTimeS is the sum of the drawn service times, HeldS that of the actual
	// ones, HeldRequests their number.
	ServiceTimeS float64 `json:"service_time_s"`
	HeldS        float64 `json:"held_s"`
	HeldRequests int64   `json:"held_requests"`
	// Waiting counts requests in the queue, Overflowed those that a full queue
	// rejected.
	Waiting    int64 `json:"waiting"`
	Overflowed int64 `json:"overflowed"`
	// Planted counts requests that failed by configuration, by Fail constant.
	Planted map[string]int64 `json:"planted_failures,omitempty"`
	// Calls counts calls to other workers, by name.
	Calls map[string]CallCounters `json:"calls,omitempty"`
	CPU   CPU                     `json:"cpu_s"` // the worker's own, by getrusage
}

// ProtocolCounters count one protocol.
type ProtocolCounters struct {
	Requests     int64            `json:"requests"` // answered or rejected
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

// CallCounters count the calls to one other worker.
type CallCounters struct {
	Requests int64 `json:"requests"` // calls, regardless of the number of attempts
	Attempts int64 `json:"attempts"`
	OK       int64 `json:"ok"`
	// Failed counts failures by the reason of the last attempt: "connect", "timeout",
	// "reset", "cancelled" or the status.
	Failed map[string]int64 `json:"failed,omitempty"`
}

// CPU is processor time in seconds.
type CPU struct {
	User   float64 `json:"user"`
	System float64 `json:"system"`
}

// Flat returns the counters by name, for a trial's record and a mesh's checks: sums
// over all protocols ("requests", "connections", "client_cert", "through_proxy",
// "bytes_in", "bytes_out", "refused", "errors", "tls_handshakes", "lua_header",
// "wasm_header"), the same by protocol ("http1.requests"), and "http1.status.200".
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

var errRestarted = errors.New("the worker restarted between the two readings of its counters")

// Since returns the increase of Flat's counters from earlier to c, or an error if the
// worker restarted in between.
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

// Request is an entry of a worker's request log.
type Request struct {
	ID       string `json:"id"` // x-request-id
	Protocol string `json:"protocol"`
	StartNS  int64  `json:"start_unix_ns"` // when it had been read
	EndNS    int64  `json:"end_unix_ns"`   // when its answer was about to be written
	Status   int    `json:"status"`        // 499: the client went away
	Failure  string `json:"failure,omitempty"`
	Attempt  int    `json:"attempt,omitempty"` // x-envoy-attempt-count
}
