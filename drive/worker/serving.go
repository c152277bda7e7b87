package worker

import (
	"context"
	"net"

	"github.com/meshtrial/meshtrial/study/protocol"
)

// serving holds the functions with which a worker serves a protocol.
type serving struct {
	// plain and secure build the servers of its endpoints.
	plain, secure func(*Worker, net.Listener) (server, error)
	// status is the protocol's name of an HTTP status.
	status func(int) string
	// dial connects to another worker's host; nil if workers do not call each other
	// by this protocol.
	dial func(host string) (peer, error)
}

// servings holds the serving of each protocol by name. The file of a protocol
// registers it.
var servings = map[string]serving{}

// part is one of the worker's servers.
type part struct {
	name, address string
	counted       *protocolCounters // of its connections; nil: not counted
	build         func(*Worker, net.Listener) (server, error)
}

// parts returns the servers: control and health first, then those of the protocols.
func (w *Worker) parts() []part {
	out := []part{
		{"control", w.options.Control, nil, (*Worker).controlServer},
		{"health", w.options.Health, nil, (*Worker).healthServer},
	}
	for _, e := range protocol.Endpoints() {
		p := part{name: e.Listener, address: w.options.Listen[e.Listener], counted: w.counters.protocol(e.Counter)}
		for name, s := range servings {
			switch e {
			case protocol.Of(name).Plain:
				p.build = s.plain
			case protocol.Of(name).TLS:
				p.build = s.secure // the same for protocols that share an endpoint
			}
		}
		out = append(out, p)
	}
	return out
}

// peer is one or more connections to another worker.
type peer interface {
	// attempt sends one request for x and returns the HTTP status of its answer.
	attempt(ctx context.Context, c *caller, x *Exchange) (int, error)
	// close closes the connections; calls in flight may fail.
	close()
}
