// Package protocol defines the protocols of requests. Each is one value that everything reads: what
// a study may request, what a generator's Spec may say, URLs and ports, the names by which meshes
// distinguish protocols, and how a worker accounts for what it served.
//
// To add a protocol, add an entry to the table in this file, a file in package load that speaks it
// (see drive/load/dialects.go) and one in package worker that serves it (see
// drive/worker/serving.go).
package protocol

import (
	"fmt"
	"slices"
	"strings"
)

// Names of the protocols: levels of the factor protocol, and values in a Spec.
const (
	WebSocket  = "websocket"   // messages over WebSocket (RFC 6455)
	GRPCStream = "grpc-stream" // messages over a bidirectional gRPC stream

	HTTP1 = "http1" // HTTP/1.1, one request at a time on a connection
	HTTP2 = "http2" // HTTP/2, with prior knowledge or by ALPN, multiplexed
	GRPC  = "grpc"  // gRPC unary with raw bytes as the message
	TCP   = "tcp"   // TCP echo: payload out, as many bytes back
)

// The worker's TLS listeners.
const (
	HTTPS = "https"
	GRPCS = "grpcs"
	TCPS  = "tcps"
)

// GRPCService and GRPCMethod name the unary method to call unless a URL names another, and
// GRPCStreamMethod the bidirectional one. Messages are raw bytes, not protobuf: the payload follows
// the five bytes of gRPC framing.
const (
	GRPCService = "meshtrial.v1.Echo"
	GRPCMethod  = "Unary"
	GRPCPath    = "/" + GRPCService + "/" + GRPCMethod

	GRPCStreamMethod = "Stream"
	GRPCStreamPath   = "/" + GRPCService + "/" + GRPCStreamMethod
)

// Protocol describes a protocol.
type Protocol struct {
	Name string
	// Plain and TLS are the endpoints where a worker serves it, and their form in URLs. TLS is zero
	// if there is no such endpoint.
	Plain, TLS Endpoint
	// ALPN is the protocol that a client offers in a TLS handshake; "" for none.
	ALPN string
	// Web means that http and https URLs may refer to it.
	Web bool
	// Multiplexed means that a connection carries many requests at once.
	Multiplexed bool
	// Streams means that a connection carries one stream of messages, which is opened once. A
	// message counts as a request, but proxies see only the request that opens the stream.
	Streams bool
	// Methods means that a request has a user-defined HTTP method and path, Headers that it carries
	// headers or metadata.
	Methods, Headers bool
	// DefaultPath is the path for a URL without one; "" for /.
	DefaultPath string
	// Echo means that the response repeats the request's bytes, so there must be some.
	Echo bool
	// Calls means that workers, and the services of a graph, call each other with it.
	Calls bool
	// Success is the status of a successful response, as counters name it.
	Success string
}

// Endpoint is where a worker serves a protocol, in plain text or with TLS. Protocols may share an
// endpoint.
type Endpoint struct {
	TLS bool // the worker speaks TLS itself
	// Listener names it among a worker's addresses, Flag on its command line.
	Listener, Flag string
	// Counter is the entry of the counters for its requests.
	Counter string
	// Doc describes the protocol in a few words.
	Doc string
	// Port is the worker's default; PortName identifies the protocol to meshes.
	Port     int
	PortName string
	// Scheme is the URL scheme, DefaultPort its port if a URL names none; 0: a URL must name one.
	Scheme      string
	DefaultPort int
}

// https is shared by the HTTP versions, which ALPN distinguishes.
var https = Endpoint{TLS: true, Listener: HTTPS, Flag: "https", Counter: HTTPS, Doc: "HTTPS", Port: 8443, PortName: "https-echo", Scheme: "https", DefaultPort: 443}

// table holds all protocols in listing order. To a sidecar, the TLS ports are opaque connections.
var table = []Protocol{
	{
		Name:  HTTP1,
		Plain: Endpoint{Listener: HTTP1, Flag: "http", Counter: HTTP1, Doc: "HTTP/1.1", Port: 8080, PortName: "http-echo", Scheme: "http", DefaultPort: 80},
		TLS:   https, ALPN: "http/1.1",
		Web: true, Methods: true, Headers: true, Calls: true, Success: "200",
	}, {
		Name:  HTTP2,
		Plain: Endpoint{Listener: HTTP2, Flag: "http2", Counter: HTTP2, Doc: "HTTP/2 without TLS", Port: 8081, PortName: "http2-echo", Scheme: "http", DefaultPort: 80},
		TLS:   https, ALPN: "h2",
		Web: true, Multiplexed: true, Methods: true, Headers: true, Calls: true, Success: "200",
	}, {
		Name:  GRPC,
		Plain: Endpoint{Listener: GRPC, Flag: "grpc", Counter: GRPC, Doc: "gRPC, method " + GRPCPath, Port: 8082, PortName: "grpc-echo", Scheme: "grpc"},
		TLS:   Endpoint{TLS: true, Listener: GRPCS, Flag: "grpcs", Counter: GRPC, Doc: "gRPC over TLS", Port: 8445, PortName: "tls-grpc-echo", Scheme: "grpcs"}, ALPN: "h2",
		Web: true, Multiplexed: true, Headers: true, DefaultPath: GRPCPath, Calls: true, Success: "OK",
	}, {
		Name:  WebSocket,
		Plain: Endpoint{Listener: WebSocket, Flag: "websocket", Counter: WebSocket, Doc: "WebSocket", Port: 8086, PortName: "http-websocket", Scheme: "ws", DefaultPort: 80},
		Web:   true, Streams: true, Headers: true, Success: "ok",
	}, {
		Name:  GRPCStream,
		Plain: Endpoint{Listener: GRPCStream, Flag: "grpc-stream", Counter: GRPCStream, Doc: "gRPC streams, method " + GRPCStreamPath, Port: 8087, PortName: "grpc-stream", Scheme: "grpc-stream"},
		Web:   true, Streams: true, Headers: true, DefaultPath: GRPCStreamPath, Success: "OK",
	}, {
		Name:  TCP,
		Plain: Endpoint{Listener: TCP, Flag: "tcp", Counter: TCP, Doc: "TCP echo", Port: 8083, PortName: "tcp-echo", Scheme: "tcp"},
		TLS:   Endpoint{TLS: true, Listener: TCPS, Flag: "tcps", Counter: TCP, Doc: "TCP echo over TLS", Port: 8444, PortName: "tls-echo", Scheme: "tls"},
		Echo:  true, Success: "ok",
	},
}

// All returns the protocols in listing order.
func All() []Protocol { return slices.Clone(table) }

// Of returns a protocol by name, or the zero Protocol if there is none.
func Of(name string) Protocol {
	for _, p := range table {
		if p.Name == name {
			return p
		}
	}
	return Protocol{}
}

// Names returns the names of the protocols that keep accepts, in order; all if keep is nil.
func Names(keep func(Protocol) bool) []string {
	var out []string
	for _, p := range table {
		if keep == nil || keep(p) {
			out = append(out, p.Name)
		}
	}
	return out
}

// Calls reports whether workers call each other with p, for [Names].
func Calls(p Protocol) bool { return p.Calls }

// Enters reports whether clients call the first service of a graph with p, for [Names].
func Enters(p Protocol) bool { return p.Calls || p.Streams }

// endpoints returns the endpoints of p: in plain text, then over TLS if there is one.
func (p Protocol) endpoints() []Endpoint {
	if p.TLS == (Endpoint{}) {
		return []Endpoint{p.Plain}
	}
	return []Endpoint{p.Plain, p.TLS}
}

// OfScheme returns the protocol that a URL scheme implies, and its endpoint; ok is false if no
// protocol has the scheme.
func OfScheme(scheme string) (p Protocol, e Endpoint, ok bool) {
	for _, p := range table {
		for _, e := range p.endpoints() {
			if e.Scheme == scheme {
				return p, e, true
			}
		}
	}
	return Protocol{}, Endpoint{}, false
}

// Schemes returns the URL schemes, each once, in order.
func Schemes() []string {
	var out []string
	for _, p := range table {
		for _, e := range p.endpoints() {
			if !slices.Contains(out, e.Scheme) {
				out = append(out, e.Scheme)
			}
		}
	}
	return out
}

// Endpoint returns the endpoint of p, with or without TLS; zero if there is none.
func (p Protocol) Endpoint(tls bool) Endpoint {
	if tls {
		return p.TLS
	}
	return p.Plain
}

// Endpoints returns the endpoints of workers, each once: plain text first, then TLS, each in
// protocol order.
func Endpoints() []Endpoint {
	var out []Endpoint
	for _, tls := range []bool{false, true} {
		for _, p := range table {
			if e := p.Endpoint(tls); e != (Endpoint{}) && !slices.Contains(out, e) {
				out = append(out, e)
			}
		}
	}
	return out
}

// Counters returns the names of the counters' entries, each once, in order.
func Counters() []string {
	var out []string
	for _, e := range Endpoints() {
		if !slices.Contains(out, e.Counter) {
			out = append(out, e.Counter)
		}
	}
	return out
}

// Succeeded reports whether counters count a response with this status as successful.
func Succeeded(status string) bool {
	return slices.ContainsFunc(table, func(p Protocol) bool { return p.Success == status })
}

// Kind returns the protocol in the port name, as meshes read it: the part before the hyphen.
func (e Endpoint) Kind() string {
	kind, _, _ := strings.Cut(e.PortName, "-")
	return kind
}

// URL returns the URL of the endpoint on a host.
func (e Endpoint) URL(host, path string) string {
	return fmt.Sprintf("%s://%s:%d%s", e.Scheme, host, e.Port, path)
}

// List formats names for a sentence: "a, b or c".
func List(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}
