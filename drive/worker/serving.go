package worker

import (
	"context"
	"net"

	"github.com/meshtrial/meshtrial/study/protocol"
)

// serving is how a worker serves a protocol.
type serving struct {
	// plain and secure build the servers of its endpoints.
	plain, secure func(*Worker, net.Listener) (server, error)
	// status is what the protocol calls an HTTP status.
	status func(int) string
	// dial makes the connection to another worker's host; nil where workers
	// do not call each other.
	dial func(host string) (peer, error)
}

// servings has one for each of the protocols, by its name. The file that serves
// a protocol puts it here when the program starts.
var servings = map[string]serving{}

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
		for name, s := range servings {
			switch e {
			case protocol.Of(name).Plain:
				p.build = s.plain
			case protocol.Of(name).TLS:
				p.build = s.secure // of protocols that share an endpoint it is the same
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
