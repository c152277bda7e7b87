package load

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2"

	"github.com/meshtrial/meshtrial/study/protocol"
)

func init() { dialects[protocol.HTTP2] = dialect{caller: newHTTP2Caller} }

// http2Caller sends HTTP/2 requests, or gRPC calls, over one connection shared by all streams.
type http2Caller struct {
	dialer    *dialer
	transport *http2.Transport
	request   *http.Request // what all requests have in common, without a context and a body
	own       own
	keep      bool
	paced     bool // requests do not follow one another at once
	// judge completes the outcome of a request whose answer was read.
	judge func(*outcome, *http.Response)

	patience time.Duration
	liveness liveness // used by the goroutine of watch

	mu     sync.Mutex
	conn   *http2Conn
	closed bool
}

// http2Conn is a connection with its lower layers.
type http2Conn struct {
	*http2.ClientConn
	pinged *pinged
}

func newHTTP2Caller(spec *Spec, t target, d *dialer) caller {
	u, _ := url.ParseRequestURI(t.path) // part of a URL that was parsed
	u.Scheme, u.Host = "http", t.hostPort
	if t.tls {
		u.Scheme = "https"
	}
	c := &http2Caller{
		dialer: d,
		// A request beyond the server's limit of streams waits, as in gRPC; it does not
		// open another connection or fail.
		transport: &http2.Transport{AllowHTTP: true, DisableCompression: true, StrictMaxConcurrentStreams: true},
		request:   &http.Request{Method: spec.method(), URL: u, Host: t.hostPort, Header: http.Header{"User-Agent": {"meshtrial"}}},
		keep:      spec.KeepAlive, paced: !spec.Rate.IsMax(), patience: spec.patience(), own: newOwn(spec),
	}
	c.setPayload(spec.payload())
	expected := spec.expectedStatuses()
	c.judge = func(out *outcome, resp *http.Response) {
		if out.status = resp.StatusCode; !expected.ok(out.status) {
			out.fail(failStatus, statusError(out.status))
		}
	}
	for _, h := range spec.Headers {
		if strings.EqualFold(h.Name, "host") {
			c.request.Host = h.Value
			continue
		}
		c.request.Header.Add(h.Name, h.Value)
	}
	return c
}

// setPayload sets the body of all requests.
func (c *http2Caller) setPayload(payload []byte) {
	if c.request.ContentLength = int64(len(payload)); len(payload) > 0 {
		c.request.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(payload)), nil }
	}
}

// newRequest returns request number n.
func (c *http2Caller) newRequest(ctx context.Context, n int64) *http.Request {
	req := c.request.WithContext(ctx)
	req.Header = c.own.header(req.Header, n)
	if req.GetBody != nil {
		req.Body, _ = req.GetBody() // does not fail
	}
	return req
}

func (c *http2Caller) connect(ctx context.Context) error {
	_, _, err := c.open(ctx)
	return err
}

// open returns the connection, and whether it is new.
func (c *http2Caller) open(ctx context.Context) (*http2Conn, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, false, net.ErrClosed
	}
	// The library accepts requests on a connection that ended before its first one, and fails them.
	if c.conn != nil && !c.conn.pinged.over.Load() && c.conn.CanTakeNewRequest() {
		return c.conn, false, nil
	}
	raw, err := c.dialer.dial(ctx)
	if err != nil {
		return nil, true, err
	}
	if secure, ok := raw.(*tls.Conn); ok {
		if got := secure.ConnectionState().NegotiatedProtocol; got != "h2" {
			raw.Close()
			return nil, true, &kindError{failTLS, fmt.Errorf("%s does not offer HTTP/2 by ALPN (it chose %q)", c.dialer.addr, got)}
		}
	}
	pinged := newPinged(raw)
	conn, err := c.transport.NewClientConn(pinged)
	if err != nil {
		raw.Close()
		return nil, true, &kindError{failProtocol, err}
	}
	c.conn = &http2Conn{conn, pinged}
	return c.conn, true, nil
}

func (c *http2Caller) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.conn != nil {
		c.conn.Close()
	}
}

// watch checks periodically whether the peer of the connection is gone, until ctx ends.
func (c *http2Caller) watch(ctx context.Context) {
	ticker := time.NewTicker(max(c.patience, time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			c.mu.Lock()
			conn := c.conn
			c.mu.Unlock()
			if conn != nil && conn.CanTakeNewRequest() && c.liveness.look(conn.pinged, conn.State().StreamsActive, now, c.patience) {
				conn.retire()
			}
		}
	}
}

func (c *http2Caller) call(ctx context.Context, n int64) outcome {
	out := outcome{}
	conn, resp, made, err := c.send(c.newRequest(ctx, n))
	out.connections = made
	if conn == nil {
		out.fail(kindOf(ctx, err), err)
		return out
	}
	if err == nil {
		out.bytesSent = c.request.ContentLength
		out.bytesRead, err = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if c.paced {
			out.held = conn.pinged
		}
	}
	if err == nil {
		c.judge(&out, resp)
	} else if kind := http2Kind(ctx, conn, err); kind == failTimeout {
		out.fail(kind, context.DeadlineExceeded) // err may be the server's reset
	} else {
		out.fail(kind, err)
	}
	if !c.keep {
		c.mu.Lock()
		conn.Close()
		c.conn = nil
		c.mu.Unlock()
	}
	return out
}

// mostTries limits the attempts for a request that was not processed.
const mostTries = 5

// send sends a request on the current connection and returns the number of new
// connections. A request that the server has not processed is sent again on the next
// connection. conn is nil if there is none.
func (c *http2Caller) send(req *http.Request) (conn *http2Conn, resp *http.Response, connections int64, err error) {
	var refuses *http2Conn
	for try := 1; ; try++ {
		var made bool
		conn, made, err = c.open(req.Context())
		if made {
			connections++
		}
		if err != nil {
			return nil, nil, connections, err
		}
		before, heard := conn.pinged.below.written.Load(), conn.pinged.below.heard.Load()
		resp, err = conn.RoundTrip(req)
		if err == nil {
			return conn, resp, connections, nil
		}
		if req.Context().Err() != nil {
			if conn.pinged.below.heard.Load() == heard {
				// Nothing arrived since the request was sent, so send no more
				// requests on this connection. It ends after those in flight.
				conn.retire()
			}
			return conn, resp, connections, err
		}
		if try == mostTries || !unprocessed(conn, before, err) {
			return conn, resp, connections, err
		}
		if refused(err) {
			// Retry on the same connection, because settings with another limit of streams
			// may have arrived; then on a new one.
			if refuses == conn {
				conn.retire()
			}
			refuses = conn
		}
		if req.GetBody != nil {
			req = req.WithContext(req.Context()) // the library may still read the previous body
			req.Body, _ = req.GetBody()
		}
	}
}

// retire stops sending requests on the connection, which ends after those in flight.
func (c *http2Conn) retire() {
	c.SetDoNotReuse()
	if s := c.State(); s.StreamsActive+s.StreamsPending == 0 {
		c.Close()
	}
}

// unprocessed reports whether a request failed without having been processed: the
// connection ended while it waited for a stream, its stream is above the last of a
// GOAWAY, it was refused (RFC 9113, 8.7), or the peer had closed the connection before
// it arrived. before is the number of bytes written to the connection before the
// request.
func unprocessed(conn *http2Conn, before int64, err error) bool {
	if refused(err) || err.Error() == http2Unusable || err.Error() == http2Unused || err.Error() == http2GoneAway {
		return true
	}
	return conn.pinged.below.ended.Load() != nil && conn.pinged.below.unread(before)
}

// Errors that the library does not export: the connection takes no more streams; it ended before
// its first stream; the stream is above the last of a GOAWAY; the same for the connection's first
// stream, with an error in the GOAWAY.
const (
	http2Unusable  = "http2: client conn not usable"
	http2Unused    = "http2: client conn could not be established"
	http2GoneAway  = "http2: Transport received Server's graceful shutdown GOAWAY"
	http2FirstGone = "http2: Transport received GOAWAY from server ErrCode:"
)

func refused(err error) bool {
	var stream http2.StreamError
	return errors.As(err, &stream) && stream.Code == http2.ErrCodeRefusedStream
}

// http2Kind returns the kind of a failure, including those specific to HTTP/2.
func http2Kind(ctx context.Context, conn *http2Conn, err error) failure {
	var stream http2.StreamError
	var connection http2.ConnectionError
	kind := kindOf(ctx, err)
	switch {
	case kind == failTimeout:
		return kind
	case errors.As(err, &stream), err.Error() == http2GoneAway, strings.HasPrefix(err.Error(), http2FirstGone):
		return failReset
	case errors.As(err, &connection):
		return failProtocol
	case kind != failOther && kind != failEOF:
		return kind
	}
	var goAway http2.GoAwayError
	if errors.As(err, &goAway) && goAway.ErrCode != http2.ErrCodeNo {
		return failReset
	}
	// If a write learned of a reset, the library's read only sees the end.
	if e := conn.pinged.below.ended.Load(); e != nil {
		return kindOf(ctx, e.err)
	}
	return kind
}
