package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/meshtrial/meshtrial/internal/rawgrpc"
	"github.com/meshtrial/meshtrial/worker/control"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

const (
	// callTimeout bounds an attempt that names no timeout of its own.
	callTimeout = 30 * time.Second
	// maxAtOnce is how many calls one request has under way.
	maxAtOnce = 256
	// maxReply is how much of another worker's answer is read; what is longer
	// costs its connection.
	maxReply = control.MaxResponse
)

// Why an attempt failed, beside a status.
const (
	callConnect   = "connect"
	callTimedOut  = "timeout"
	callReset     = "reset"
	callCancelled = "cancelled"
)

// passedOn are the headers that a worker hands on to those it calls, so that
// a request can be followed through the graph.
var passedOn = []string{"x-request-id", "traceparent", "tracestate", "b3", "x-b3-traceid", "x-b3-spanid", "x-b3-parentspanid", "x-b3-sampled", "x-b3-flags", "x-ot-span-context"}

// callCounters count the calls to one other worker.
type callCounters struct {
	requests, attempts, ok atomic.Int64
	mu                     sync.Mutex
	failed                 map[string]int64
}

func (c *callCounters) fail(why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed == nil {
		c.failed = map[string]int64{}
	}
	c.failed[why]++
}

// caller makes one of the calls that a configuration names.
type caller struct {
	control.Call
	counters *callCounters
	// attempt sends one request and returns the HTTP status it came to.
	attempt func(ctx context.Context, x *Exchange) (int, error)
	timeout time.Duration
	body    []byte
}

// peers are connections to other workers. They outlive a configuration, as
// long as the next one calls the same host.
type peers struct {
	http map[string]*http.Transport  // by protocol and host
	grpc map[string]*grpc.ClientConn // by host
}

// callers makes the callers of a configuration, and closes connections that
// none of them needs.
func (w *Worker) callers(calls []control.Call) ([]*caller, error) {
	out := make([]*caller, 0, len(calls))
	needed := peers{http: map[string]*http.Transport{}, grpc: map[string]*grpc.ClientConn{}}
	for _, call := range calls {
		target, err := url.Parse(call.URL)
		if err != nil {
			return nil, err
		}
		c := &caller{Call: call, counters: w.counters.call(call.Name), timeout: microseconds(call.TimeoutMS * 1e3), body: payload(call.Bytes)}
		if c.timeout == 0 {
			c.timeout = callTimeout
		}
		if call.Protocol == control.GRPC {
			conn := w.peers.grpc[target.Host]
			if conn == nil {
				if conn, err = grpc.NewClient("passthrough:///"+target.Host, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawgrpc.Codec{}))); err != nil {
					return nil, err
				}
			}
			needed.grpc[target.Host] = conn
			c.attempt = func(ctx context.Context, x *Exchange) (int, error) { return c.grpc(ctx, conn, x) }
		} else {
			key := call.Protocol + " " + target.Host
			transport := w.peers.http[key]
			if transport == nil {
				transport = newTransport(call.Protocol)
			}
			needed.http[key] = transport
			c.attempt = func(ctx context.Context, x *Exchange) (int, error) { return c.http(ctx, transport, x) }
		}
		out = append(out, c)
	}
	old := w.peers
	w.peers = needed
	for key, transport := range old.http {
		if needed.http[key] == nil {
			transport.CloseIdleConnections()
		}
	}
	for host, conn := range old.grpc {
		if needed.grpc[host] == nil {
			conn.Close() // calls under way end as cancelled
		}
	}
	return out, nil
}

func (p *peers) close() {
	for _, transport := range p.http {
		transport.CloseIdleConnections()
	}
	for _, conn := range p.grpc {
		conn.Close()
	}
}

func newTransport(protocol string) *http.Transport {
	t := &http.Transport{
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		MaxIdleConnsPerHost: 1000,
		IdleConnTimeout:     90 * time.Second,
		DisableCompression:  true,
		Protocols:           new(http.Protocols),
	}
	if protocol == control.HTTP2 {
		t.Protocols.SetUnencryptedHTTP2(true)
	} else {
		t.Protocols.SetHTTP1(true)
	}
	return t
}

// forward makes the calls before the answer. A call without success fails the
// exchange with 502, or 504 if it timed out, unless it is optional.
func forward(callers []*caller, parallel bool) Link {
	return func(next Behaviour) Behaviour {
		if len(callers) == 0 {
			return next
		}
		return func(ctx context.Context, x *Exchange) error {
			var err error
			if parallel {
				group, groupCtx := errgroup.WithContext(ctx)
				group.SetLimit(maxAtOnce)
				for _, c := range callers {
					for range c.turns() {
						group.Go(func() error { return c.do(groupCtx, x) })
					}
				}
				err = group.Wait()
			} else {
				err = inTurn(ctx, callers, x)
			}
			var failed *callError
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case errors.As(err, &failed):
				x.Status, x.Reply = http.StatusBadGateway, []byte(failed.Error()+"\n")
				if failed.why == callTimedOut {
					x.Status = http.StatusGatewayTimeout
				}
				return nil
			case err != nil:
				return err
			}
			return next(ctx, x)
		}
	}
}

func inTurn(ctx context.Context, callers []*caller, x *Exchange) error {
	for _, c := range callers {
		for range c.turns() {
			if err := c.do(ctx, x); err != nil {
				return err
			}
		}
	}
	return nil
}

// turns is how often a call is made for this request.
func (c *caller) turns() int {
	if c.Probability != nil && rand.Float64() >= *c.Probability {
		return 0
	}
	return max(1, c.Times)
}

// callError is a call without success.
type callError struct{ name, why string }

func (e *callError) Error() string { return fmt.Sprintf("the call to %s failed: %s", e.name, e.why) }

// do makes a call with its retries.
func (c *caller) do(ctx context.Context, x *Exchange) error {
	c.counters.requests.Add(1)
	why := ""
	for range c.Retries + 1 {
		c.counters.attempts.Add(1)
		limited, cancel := context.WithTimeout(ctx, c.timeout)
		status, err := c.attempt(limited, x)
		why = reason(ctx, limited, status, err)
		cancel()
		if why == "" {
			c.counters.ok.Add(1)
			return nil
		}
		if ctx.Err() != nil || err == nil && status < 500 {
			break // nobody waits any longer, or the same request would fail again
		}
	}
	c.counters.fail(why)
	if c.Optional {
		return nil
	}
	return &callError{name: c.Name, why: why}
}

// reason says why an attempt failed; "" if it did not.
func reason(ctx, limited context.Context, code int, err error) string {
	var dial *net.OpError
	switch {
	case err == nil && code < 400:
		return ""
	case err == nil:
		return strconv.Itoa(code)
	case ctx.Err() != nil:
		return callCancelled
	case limited.Err() != nil, errors.Is(err, context.DeadlineExceeded):
		return callTimedOut
	case errors.As(err, &dial) && dial.Op == "dial":
		return callConnect
	}
	return callReset
}

func (c *caller) http(ctx context.Context, transport *http.Transport, x *Exchange) (int, error) {
	method := http.MethodGet
	var body io.Reader
	if len(c.body) > 0 {
		method, body = http.MethodPost, bytes.NewReader(c.body)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.URL, body)
	if err != nil {
		return 0, err
	}
	for _, name := range passedOn {
		if value := x.Header(name); value != "" {
			req.Header.Set(name, value)
		}
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, maxReply))
	resp.Body.Close()
	return resp.StatusCode, err
}

func (c *caller) grpc(ctx context.Context, conn *grpc.ClientConn, x *Exchange) (int, error) {
	for _, name := range passedOn {
		if value := x.Header(name); value != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, name, value)
		}
	}
	reply := rawgrpc.Message{SizeOnly: true}
	err := conn.Invoke(ctx, control.GRPCMethod, &rawgrpc.Message{Body: c.body}, &reply, grpc.MaxCallRecvMsgSize(maxReply))
	switch code := status.Code(err); {
	case err == nil:
		return http.StatusOK, nil
	case ctx.Err() != nil, code == codes.Canceled:
		return 0, err
	case code == codes.DeadlineExceeded && expired(ctx, time.Now()):
		// The server knows the caller's deadline, and may say so before the
		// caller's own timer does.
		return 0, context.DeadlineExceeded
	case code == codes.DeadlineExceeded: // the server's own, of a call it made
		return http.StatusGatewayTimeout, nil
	case code == codes.Unavailable:
		return http.StatusServiceUnavailable, nil
	case code == codes.ResourceExhausted:
		return http.StatusRequestEntityTooLarge, nil
	default:
		return http.StatusInternalServerError, nil
	}
}

// expired tells whether a call's deadline has come. A server counts from when
// the call reached it, so that it is never earlier by more than what gRPC rounds.
func expired(ctx context.Context, now time.Time) bool {
	deadline, ok := ctx.Deadline()
	return ok && deadline.Sub(now) <= time.Millisecond
}
