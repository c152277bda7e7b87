package worker

import (
	"context"
	"net"
	"net/http"
	"strconv"

	"github.com/meshtrial/meshtrial/protocol"
)

// serving is how a worker serves a protocol.
type serving struct {
	protocol string
	// plain and secure build the servers of its endpoints.
	plain, secure func(*Worker, net.Listener) (server, error)
	// status is what the protocol calls an HTTP status.
	status func(int) string
	// dial makes the connection to another worker's host; nil where workers
	// do not call each other.
	dial func(host string) (peer, error)
}

// servings has one for each of the protocols.
func servings() []serving {
	return []serving{
		{protocol.HTTP1, (*Worker).http1Server, (*Worker).httpsServer, strconv.Itoa, dialHTTP((*http.Protocols).SetHTTP1)},
		{protocol.HTTP2, (*Worker).http2Server, (*Worker).httpsServer, strconv.Itoa, dialHTTP((*http.Protocols).SetUnencryptedHTTP2)},
		{protocol.GRPC, (*Worker).grpcServer, (*Worker).grpcsServer, grpcStatus, dialGRPC},
		{protocol.TCP, (*Worker).tcpServer, (*Worker).tcpsServer, tcpStatus, nil},
	}
}

// servingOf is how a protocol is served.
func servingOf(name string) serving {
	for _, s := range servings() {
		if s.protocol == name {
			return s
		}
	}
	return serving{}
}

// part is one of the worker's servers.
type part struct {
	name, address string
	counted       *protocolCounters // what counts its connections; nil: nothing
	build         func(*Worker, net.Listener) (server, error)
}

// parts are the servers that the options ask for: control and health first,
// then those of the protocols.
func (w *Worker) parts() []part {
	out := []part{
		{"control", w.options.Control, nil, (*Worker).controlServer},
		{"health", w.options.Health, nil, (*Worker).healthServer},
	}
	for _, e := range protocol.Endpoints() {
		p := part{name: e.Listener, address: w.options.Listen[e.Listener], counted: w.counters.protocol(e.Counter)}
		for _, s := range servings() {
			switch e {
			case protocol.Of(s.protocol).Plain:
				p.build = s.plain
			case protocol.Of(s.protocol).TLS:
				p.build = s.secure
			}
		}
		out = append(out, p)
	}
	return out
}

// peer is a connection to another worker, or several of them.
type peer interface {
	// attempt sends one request for x and returns the HTTP status it came to.
	attempt(ctx context.Context, c *caller, x *Exchange) (int, error)
	// close ends it; a call under way may end with it.
	close()
}
