// Package protocol holds the protocols that requests are made in, each as one
// value that everything reads: what a study may ask for, what a Spec of the
// generator may say, the URLs and ports, the names by which meshes tell one
// protocol from another, and how a worker accounts for what it served.
//
// A new protocol is an entry of the table in this file, a file of package load
// that speaks it (drive/load/dialects.go says how) and one of package worker that
// serves it (drive/worker/serving.go).
package protocol

import (
	"fmt"
	"slices"
	"strings"
)

// Names of the protocols: levels of the factor protocol, and what a Spec says.
const (
	HTTP1 = "http1" // HTTP/1.1, one request at a time on a connection
	HTTP2 = "http2" // HTTP/2, with prior knowledge or by ALPN, multiplexed
	GRPC  = "grpc"  // gRPC unary with raw bytes as the message
	TCP   = "tcp"   // TCP echo: payload out, as many bytes back
)

// Listeners of the worker that speak TLS.
const (
	HTTPS = "https"
	GRPCS = "grpcs"
	TCPS  = "tcps"
)

// GRPCService and GRPCMethod name the unary method that is called unless a URL
// names another. Its messages are raw bytes, not protobuf: the payload is what
// follows the five bytes of gRPC framing.
const (
	GRPCService = "meshtrial.v1.Echo"
	GRPCMethod  = "Unary"
	GRPCPath    = "/" + GRPCService + "/" + GRPCMethod
)

// Protocol is one of them.
type Protocol struct {
	Name string
	// Plain and TLS are where a worker serves it, and how a URL says so.
	Plain, TLS Endpoint
	// ALPN is what a client offers in a TLS handshake; "" for nothing.
	ALPN string
	// Web says that URLs of http and https may mean it.
	Web bool
	// Multiplexed says that a connection carries many requests at once.
	Multiplexed bool
	// Methods says that a request has an HTTP method and a path of the user's
	// choice, Headers that it carries headers, or metadata.
	Methods, Headers bool
	// DefaultPath is the path where a URL has none; "" for /.
	DefaultPath string
	// Echo says that the answer is the request's bytes: there must be some.
	Echo bool
	// Calls says that workers, and the services of a graph, call each other
	// in it.
	Calls bool
	// Success is the status, as counters name it, of an answer as it should be.
	Success string
}

// Endpoint is where a worker serves a protocol, in plain text or with TLS.
// Protocols may share one.
type Endpoint struct {
	TLS bool // the worker speaks TLS itself
	// Listener names it among a worker's addresses, Flag on its command line.
	Listener, Flag string
	// Counter is the entry of the counters in which requests are counted.
	Counter string
	// Doc says what is spoken, in a few words.
	Doc string
	// Port is the worker's default; PortName tells meshes the protocol.
	Port     int
	PortName string
	// Scheme is that of URLs, DefaultPort its port where a URL names none; 0:
	// a URL must.
	Scheme      string
	DefaultPort int
}

// https is shared by the versions of HTTP: ALPN tells them apart.
var https = Endpoint{TLS: true, Listener: HTTPS, Flag: "https", Counter: HTTPS, Doc: "HTTPS", Port: 8443, PortName: "https-echo", Scheme: "https", DefaultPort: 443}

// table holds all protocols, in the order in which they are listed. To a
// sidecar the ports with TLS are opaque connections.
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
		Name:  TCP,
		Plain: Endpoint{Listener: TCP, Flag: "tcp", Counter: TCP, Doc: "TCP echo", Port: 8083, PortName: "tcp-echo", Scheme: "tcp"},
		TLS:   Endpoint{TLS: true, Listener: TCPS, Flag: "tcps", Counter: TCP, Doc: "TCP echo over TLS", Port: 8444, PortName: "tls-echo", Scheme: "tls"},
		Echo:  true, Success: "ok",
	},
}

// All returns the protocols in the order in which they are listed.
func All() []Protocol { return slices.Clone(table) }

// Of returns the protocol of a name; the zero Protocol if there is none.
func Of(name string) Protocol {
	for _, p := range table {
		if p.Name == name {
			return p
		}
	}
	return Protocol{}
}

// Names returns the names of the protocols that keep says yes to, in order;
// all if keep is nil.
func Names(keep func(Protocol) bool) []string {
	var out []string
	for _, p := range table {
		if keep == nil || keep(p) {
			out = append(out, p.Name)
		}
	}
	return out
}

// Calls tells whether workers call each other in p, for [Names].
func Calls(p Protocol) bool { return p.Calls }

// OfScheme returns the protocol that a URL's scheme means by itself, and how
// it is served; ok is false if no protocol has the scheme.
func OfScheme(scheme string) (p Protocol, e Endpoint, ok bool) {
	for _, p := range table {
		for _, e := range []Endpoint{p.Plain, p.TLS} {
			if e.Scheme == scheme {
				return p, e, true
			}
		}
	}
	return Protocol{}, Endpoint{}, false
}

// Schemes returns the schemes of URLs, each once, in order.
func Schemes() []string {
	var out []string
	for _, p := range table {
		for _, e := range []Endpoint{p.Plain, p.TLS} {
			if !slices.Contains(out, e.Scheme) {
				out = append(out, e.Scheme)
			}
		}
	}
	return out
}

// Endpoint returns where p is served, with TLS or without.
func (p Protocol) Endpoint(tls bool) Endpoint {
	if tls {
		return p.TLS
	}
	return p.Plain
}

// Endpoints returns where workers serve, each once: those in plain text first,
// each part in the order of the protocols.
func Endpoints() []Endpoint {
	var out []Endpoint
	for _, tls := range []bool{false, true} {
		for _, p := range table {
			if e := p.Endpoint(tls); !slices.Contains(out, e) {
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

// Succeeded tells whether counters name an answer so that was as it should be.
func Succeeded(status string) bool {
	return slices.ContainsFunc(table, func(p Protocol) bool { return p.Success == status })
}

// Kind is the protocol as the port's name tells it to meshes: what is before
// the hyphen.
func (e Endpoint) Kind() string {
	kind, _, _ := strings.Cut(e.PortName, "-")
	return kind
}

// URL is where requests to the endpoint go at a host.
func (e Endpoint) URL(host, path string) string {
	return fmt.Sprintf("%s://%s:%d%s", e.Scheme, host, e.Port, path)
}

// List writes names as a sentence has them: "a, b or c".
func List(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}
