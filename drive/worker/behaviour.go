package worker

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/meshtrial/meshtrial/drive/worker/control"
)

// Exchange is a request and its answer, whatever the protocol. The protocol
// servers fill in the request, the chain of behaviours fills in the answer,
// and the servers write it.
type Exchange struct {
	Protocol string // one of [protocol.Counters]
	Path     string // "" for TCP
	// Header returns per request header by its lower-case name, "" if it is
	// absent. It is never nil.
	Header func(name string) string
	// Body is the request's body if the configuration in force echoes it;
	// BodyBytes counts it in any case.
	Body      []byte
	BodyBytes int64
	Start     time.Time // when the request had been read

	// Status is the answer's HTTP status; gRPC and TCP answer with an error
	// when it is not 200.
	Status int
	Reply  []byte
	// Failure is the planned failure that took the exchange; "" for none.
	Failure string

	counted *protocolCounters // those of its protocol
	echo    bool              // the protocol answers with the request's body, whatever is configured
	begun   time.Time         // when it got its place to be served; zero: Start
	fate    *control.Failure  // drawn before anything else
	slow    int64             // bytes per second at which Reply is to be sent; 0: at once
}

// served is when the time of its service began.
func (x *Exchange) served() time.Time {
	if x.begun.IsZero() {
		return x.Start
	}
	return x.begun
}

// Behaviour answers an exchange. An error means that it ended without an
// answer: the client went away, or the worker stopped.
type Behaviour func(ctx context.Context, x *Exchange) error

// Link adds a behaviour around another one. Everything the worker does to a
// request is a link: what later forwards, delays or fails requests is one
// more.
type Link func(next Behaviour) Behaviour

// chain puts links around each other, the first outermost.
func chain(links ...Link) Behaviour {
	behaviour := Behaviour(func(context.Context, *Exchange) error { return nil })
	for i := len(links) - 1; i >= 0; i-- {
		behaviour = links[i](behaviour)
	}
	return behaviour
}

// count counts every exchange, and remembers it if that is wanted; servers
// count what fails before the chain.
func count(c *counters, log *requestLog) Link {
	return func(next Behaviour) Behaviour {
		return func(ctx context.Context, x *Exchange) error {
			c.inFlight.Add(1)
			defer c.inFlight.Add(-1)
			err := next(ctx, x)
			p := x.counted
			p.bytesIn.Add(x.BodyBytes)
			if x.Header("x-forwarded-client-cert") != "" {
				p.clientCert.Add(1)
			}
			if x.Header(luaHeader) != "" {
				p.luaHeader.Add(1)
			}
			if x.Header(wasmHeader) != "" {
				p.wasmHeader.Add(1)
			}
			if throughProxy(x) {
				p.throughProxy.Add(1)
			}
			status := x.Status
			switch {
			case errors.Is(err, errReset):
				status = statusReset
			case err != nil:
				status = statusGone
			default:
				p.bytesOut.Add(int64(len(x.Reply)))
			}
			p.answered(status)
			if log != nil {
				log.add(x, status)
			}
			return err
		}
	}
}

// Headers that parts of a sidecar set: the factor filters.
const (
	luaHeader  = "x-meshtrial-lua"
	wasmHeader = "x-meshtrial-wasm"
)

// throughProxy tells whether a proxy has touched the request: Envoy gives
// each one an x-request-id.
func throughProxy(x *Exchange) bool {
	for _, name := range [...]string{"x-request-id", "x-envoy-attempt-count", "x-envoy-decorator-operation", "x-envoy-expected-rq-timeout-ms"} {
		if x.Header(name) != "" {
			return true
		}
	}
	return false
}

// hold keeps the exchange for a service time.
func hold(s *sampler, p *pacer, c *counters) Link {
	return func(next Behaviour) Behaviour {
		return func(ctx context.Context, x *Exchange) error {
			if wait := s.draw(); wait > 0 {
				begun := x.served()
				if err := p.until(ctx, begun.Add(wait)); err != nil {
					return err
				}
				c.held.Add(1)
				c.serviceNS.Add(int64(wait))
				c.heldNS.Add(int64(time.Since(begun)))
			}
			return next(ctx, x)
		}
	}
}

// respond answers 200 with a body of a fixed size, or with the request's own.
func respond(size int64) Link {
	var reply []byte
	if size > 0 {
		reply = payload(size)
	}
	return func(next Behaviour) Behaviour {
		return func(ctx context.Context, x *Exchange) error {
			x.Status = 200
			if size == control.EchoBody || x.echo {
				x.Reply = x.Body
			} else {
				x.Reply = reply
			}
			return next(ctx, x)
		}
	}
}

// payload is text that a person recognises in a packet dump.
func payload(size int64) []byte {
	const text = "meshtrial "
	out := make([]byte, size)
	for n := copy(out, text); n > 0 && n < len(out); n *= 2 {
		copy(out[n:], out[:n])
	}
	return out
}

// active is a configuration in force: built once, read by every request.
type active struct {
	config   control.Config
	needBody bool
	serve    Behaviour
	// length is the fixed reply's Content-Length.
	length []string
	gate   *gate  // nil: nothing is bounded
	memory []byte // held because the configuration says so
}

// budget bounds the bytes of request bodies held in memory at once.
type budget struct {
	left atomic.Int64
}

func (b *budget) take(n int64) bool {
	if b.left.Add(-n) < 0 {
		b.left.Add(n)
		return false
	}
	return true
}

func (b *budget) give(n int64) { b.left.Add(n) }
