package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/meshtrial/meshtrial/drive/worker/control"
	"github.com/meshtrial/meshtrial/study/protocol"
	"golang.org/x/sync/errgroup"
)

const (
	// callTimeout limits attempts without their own timeout.
	callTimeout = 30 * time.Second
	// maxAtOnce limits the concurrent calls of one request.
	maxAtOnce = 256
	// maxReply limits how much of another worker's answer is read. After a longer
	// answer the connection is closed.
	maxReply = control.MaxResponse
)

// Reasons of failed attempts, in addition to statuses.
const (
	callConnect   = "connect"
	callTimedOut  = "timeout"
	callReset     = "reset"
	callCancelled = "cancelled"
)

// passedOn lists the headers that calls repeat, so that a request can be traced through
// the graph.
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
	c.failed[why]++
}

// caller makes one of the calls that a configuration names.
type caller struct {
	control.Call
	counters *callCounters
	peer     peer
	timeout  time.Duration
	body     []byte
}

// callers returns the callers of a configuration, and closes connections that none of
// them needs. A connection survives a change as long as the same host is called.
func (w *Worker) callers(calls []control.Call) ([]*caller, error) {
	out := make([]*caller, 0, len(calls))
	needed := map[string]peer{}
	for _, call := range calls {
		target, err := url.Parse(call.URL)
		if err != nil {
			return nil, err
		}
		speaks := cmp.Or(call.Protocol, protocol.HTTP1)
		key := speaks + " " + target.Host
		if needed[key] == nil {
			needed[key] = w.peers[key]
		}
		if needed[key] == nil {
			if needed[key], err = servings[speaks].dial(target.Host); err != nil {
				return nil, err
			}
		}
		out = append(out, &caller{Call: call, counters: w.counters.call(call.Name), peer: needed[key],
			timeout: cmp.Or(microseconds(call.TimeoutMS*1e3), callTimeout), body: payload(call.Bytes)})
	}
	for key, old := range w.peers {
		if needed[key] == nil {
			old.close()
		}
	}
	w.peers = needed
	return out, nil
}

// forward makes the calls before the answer. A failed call fails the exchange with 502,
// or 504 if it timed out, unless it is optional.
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

// turns returns the number of times a call is made for a request.
func (c *caller) turns() int {
	if c.Probability != nil && rand.Float64() >= *c.Probability {
		return 0
	}
	return max(1, c.Times)
}

// callError is a failed call.
type callError struct{ name, why string }

func (e *callError) Error() string { return fmt.Sprintf("the call to %s failed: %s", e.name, e.why) }

// do makes a call with its retries.
func (c *caller) do(ctx context.Context, x *Exchange) error {
	c.counters.requests.Add(1)
	why := ""
	for range c.Retries + 1 {
		c.counters.attempts.Add(1)
		limited, cancel := context.WithTimeout(ctx, c.timeout)
		status, err := c.peer.attempt(limited, c, x)
		why = reason(ctx, limited, status, err)
		cancel()
		if why == "" {
			c.counters.ok.Add(1)
			return nil
		}
		if ctx.Err() != nil || err == nil && status < 500 {
			break // the client has left, or a retry would fail too
		}
	}
	c.counters.fail(why)
	if c.Optional {
		return nil
	}
	return &callError{name: c.Name, why: why}
}

// reason returns the reason why an attempt failed; "" if it succeeded.
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
