package worker

import (
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/meshtrial/meshtrial/drive/worker/control"
	"golang.org/x/sync/semaphore"
	"golang.org/x/sys/unix"
)

// Exchange is a request and its answer, for any protocol. The protocol's server fills
// in the request, the chain of behaviours fills in the answer, and the server writes
// it.
type Exchange struct {
	Protocol string // one of [protocol.Counters]
	// Header returns a request header by its lower-case name; "" if it is
	// absent.
	Header func(name string) string
	// Body is the request's body if the configuration echoes it; BodyBytes counts it
	// either way.
	Body      []byte
	BodyBytes int64
	Start     time.Time // when the request had been read

	// Status is the answer's HTTP status; gRPC and TCP answer with an error
	// when it is not 200.
	Status int
	Reply  []byte
	// Failure is the planned failure of the exchange; "" for none.
	Failure string

	counted *protocolCounters // of its protocol
	echo    bool              // answer with the request's body, whatever the configuration
	begun   time.Time         // when it was admitted; zero: at Start
	fate    *control.Failure  // drawn before anything else
	slow    int64             // bytes per second at which Reply is sent; 0: no limit
}

// served returns when its service time began.
func (x *Exchange) served() time.Time {
	if x.begun.IsZero() {
		return x.Start
	}
	return x.begun
}

// Behaviour answers an exchange. An error means that the exchange ended without an
// answer: the client went away, or the worker stopped.
type Behaviour func(ctx context.Context, x *Exchange) error

// Link wraps a behaviour in another one. Everything that the worker does to a request
// is a link.
type Link func(next Behaviour) Behaviour

// chain nests links, the first outermost.
func chain(links ...Link) Behaviour {
	behaviour := Behaviour(func(context.Context, *Exchange) error { return nil })
	for _, link := range slices.Backward(links) {
		behaviour = link(behaviour)
	}
	return behaviour
}

// count counts every exchange, and logs it if configured. Servers count requests that
// fail before the chain.
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

// Headers that a sidecar's filters set (factor filters).
const (
	luaHeader  = "x-meshtrial-lua"
	wasmHeader = "x-meshtrial-wasm"
)

// throughProxy reports whether a proxy has handled the request: Envoy adds an
// x-request-id to each one.
func throughProxy(x *Exchange) bool {
	return x.Header("x-request-id") != "" || x.Header("x-envoy-attempt-count") != "" ||
		x.Header("x-envoy-decorator-operation") != "" || x.Header("x-envoy-expected-rq-timeout-ms") != ""
}

// hold waits until the service time is over.
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

// respond answers 200 with a body of a fixed size, or with the request's body.
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

// payload returns text that is easy to recognise in a packet dump.
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
	gate   *gate  // nil: no limit
	memory []byte // held by configuration
}

// budget limits the bytes of request bodies held in memory at once.
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

// heldBody is a body in memory, whose capacity it takes from a budget as bytes arrive: a client that
// announces a large body and sends little takes little.
type heldBody struct {
	budget *budget
	bytes  []byte
}

var errBodies = errors.New("too many message bodies in memory")

// release gives the memory back to the budget.
func (h *heldBody) release() { h.budget.give(int64(cap(h.bytes))) }

// read replaces the body by what in has up to its end. announced is the number of bytes; 0: unknown.
func (h *heldBody) read(in io.Reader, announced int64) error {
	h.bytes = h.bytes[:0]
	for announced == 0 || int64(len(h.bytes)) < announced {
		if size := int64(cap(h.bytes)); int64(len(h.bytes)) == size {
			grown := max(512, 2*size, min(announced, 64<<10))
			if announced > 0 {
				grown = min(grown, max(512, announced))
			}
			if !h.budget.take(grown - size) {
				return errBodies
			}
			h.bytes = append(make([]byte, 0, grown), h.bytes...)
		}
		n, err := in.Read(h.bytes[len(h.bytes):cap(h.bytes)])
		h.bytes = h.bytes[:len(h.bytes)+n]
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// gate limits the number of requests served at once and the number waiting, in order.
type gate struct {
	limit, queue int
	places       *semaphore.Weighted
	waiting      atomic.Int64
}

var overloaded = []byte("overloaded\n")

// admit passes requests through a gate; nil admits all.
func admit(g *gate, c *counters) Link {
	return func(next Behaviour) Behaviour {
		if g == nil {
			return next
		}
		return func(ctx context.Context, x *Exchange) error {
			if !g.places.TryAcquire(1) {
				if g.waiting.Add(1) > int64(g.queue) {
					g.waiting.Add(-1)
					c.overflowed.Add(1)
					x.Status, x.Reply = http.StatusServiceUnavailable, overloaded
					return nil
				}
				c.waiting.Add(1)
				err := g.places.Acquire(ctx, 1)
				c.waiting.Add(-1)
				g.waiting.Add(-1)
				if err != nil {
					return err
				}
				x.begun = time.Now()
			}
			defer g.places.Release(1)
			return next(ctx, x)
		}
	}
}

// burn spends CPU time on each exchange.
func burn(each time.Duration) Link {
	return func(next Behaviour) Behaviour {
		if each <= 0 {
			return next
		}
		return func(ctx context.Context, x *Exchange) error {
			if err := spin(ctx, each); err != nil {
				return err
			}
			return next(ctx, x)
		}
	}
}

// spin uses CPU until the thread's CPU clock has advanced by d: time in which another
// process had the CPU does not count.
func spin(ctx context.Context, d time.Duration) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	end := threadTime() + d
	for threadTime() < end {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		runtime.KeepAlive(churn(200))
	}
	return nil
}

// churn is some hundred nanoseconds of work that no compiler removes.
//
//go:noinline
func churn(rounds uint64) uint64 {
	x := rounds | 1
	for range rounds {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}

// threadTime returns the CPU time of the calling thread.
func threadTime() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil { // it cannot fail with these arguments
		return 0
	}
	return time.Duration(t.Nano())
}

// hoard returns memory of which every page has been written to.
func hoard(bytes int64) []byte {
	if bytes == 0 {
		return nil
	}
	held := make([]byte, bytes)
	for i := 0; i < len(held); i += 4096 {
		held[i] = 1
	}
	return held
}
