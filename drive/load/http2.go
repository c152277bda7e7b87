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
	"strings"
	"sync"

	"golang.org/x/net/http2"

	"github.com/meshtrial/meshtrial/study/protocol"
)

func init() { dialects[protocol.HTTP2] = dialect{caller: newHTTP2Caller} }

// http2Caller makes HTTP/2 requests over one connection, shared by all of
// its streams.
type http2Caller struct {
	dialer    *dialer
	transport *http2.Transport
	method    string
	url       string
	host      string
	header    http.Header
	own       own
	payload   []byte
	size      int
	keep      bool

	mu     sync.Mutex
	conn   *http2.ClientConn
	closed bool
}

func newHTTP2Caller(spec *Spec, t target, d *dialer) caller {
	scheme := "http"
	if t.tls {
		scheme = "https"
	}
	c := &http2Caller{
		dialer: d,
		// A request beyond the server's limit of streams waits for one of them, as it does
		// in gRPC: it does not make another connection, or fail.
		transport: &http2.Transport{AllowHTTP: true, DisableCompression: true, StrictMaxConcurrentStreams: true},
		method:    spec.method(), url: scheme + "://" + t.hostPort + t.path, host: t.hostPort,
		header: http.Header{"User-Agent": {"meshtrial"}}, payload: spec.payload(), size: spec.payloadSize(),
		keep: spec.KeepAlive, own: newOwn(spec),
	}
	for _, h := range spec.Headers {
		if strings.EqualFold(h.Name, "host") {
			c.host = h.Value
			continue
		}
		c.header.Add(h.Name, h.Value)
	}
	return c
}

func (c *http2Caller) connect(ctx context.Context) error {
	_, _, err := c.open(ctx)
	return err
}

// open returns the connection, and whether it had to be made.
func (c *http2Caller) open(ctx context.Context) (*http2.ClientConn, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, false, net.ErrClosed
	}
	if c.conn != nil && c.conn.CanTakeNewRequest() {
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
	conn, err := c.transport.NewClientConn(raw)
	if err != nil {
		raw.Close()
		return nil, true, &kindError{failProtocol, err}
	}
	c.conn = conn
	return conn, true, nil
}

func (c *http2Caller) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.conn != nil {
		c.conn.Close()
	}
}

func (c *http2Caller) call(ctx context.Context, job job) outcome {
	out := outcome{}
	n := c.size
	if job.size >= 0 {
		n = int(job.size)
	}
	var body io.Reader
	if n > 0 {
		body = bytes.NewReader(c.payload[:n])
	}
	req, err := http.NewRequestWithContext(ctx, c.method, c.url, body)
	if err != nil {
		return failedWith(failOther)
	}
	req.Header, req.Host = c.own.header(c.header, job.n), c.host
	conn, resp, made, err := c.send(req)
	out.connections = made
	if conn == nil {
		out.failed, out.kind = true, kindOf(ctx, err)
		return out
	}
	if err == nil {
		out.bytesSent = int64(n)
		out.bytesRead, err = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	if err == nil {
		out.status = resp.StatusCode
	}
	switch {
	case err != nil:
		out.failed, out.kind = true, http2Kind(ctx, err)
	case resp.StatusCode/100 != 2:
		out.failed, out.kind = true, failStatus
	}
	if !c.keep {
		c.mu.Lock()
		conn.Close()
		c.conn = nil
		c.mu.Unlock()
	}
	return out
}

// mostTries is on how many connections a request may wait for a stream.
const mostTries = 3

// send makes a request on the connection there is, and says how many had to be made. A
// request that waited for a stream of a connection which came to its end has not left: it
// goes on the next one, as it does in gRPC. Without a connection conn is nil.
func (c *http2Caller) send(req *http.Request) (conn *http2.ClientConn, resp *http.Response, connections int64, err error) {
	for try := 1; ; try++ {
		var made bool
		conn, made, err = c.open(req.Context())
		if made {
			connections++
		}
		if err != nil {
			return nil, nil, connections, err
		}
		resp, err = conn.RoundTrip(req)
		if err == nil || try == mostTries || !strings.Contains(err.Error(), "client conn not usable") {
			return conn, resp, connections, err
		}
	}
}

// http2Kind names the failures that only HTTP/2 has.
func http2Kind(ctx context.Context, err error) failure {
	var stream http2.StreamError
	var connection http2.ConnectionError
	var goAway http2.GoAwayError
	switch kind := kindOf(ctx, err); {
	case kind != failOther:
		return kind
	case errors.As(err, &stream), errors.As(err, &goAway):
		return failReset
	case errors.As(err, &connection):
		return failProtocol
	case isEOF(err), strings.Contains(err.Error(), "client connection lost"):
		return failEOF
	}
	return failOther
}
