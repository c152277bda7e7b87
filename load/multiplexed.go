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
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/meshtrial/meshtrial/internal/rawgrpc"
)

func isEOF(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

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

func newHTTP2Caller(spec *Spec, t target, d *dialer) *http2Caller {
	scheme := "http"
	if t.tls {
		scheme = "https"
	}
	c := &http2Caller{
		dialer:    d,
		transport: &http2.Transport{AllowHTTP: true, DisableCompression: true},
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
	conn, made, err := c.open(ctx)
	if made {
		out.connections++
	}
	if err != nil {
		out.failed, out.kind = true, kindOf(ctx, err)
		return out
	}
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
	resp, err := conn.RoundTrip(req)
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

// grpcCaller makes unary calls over one connection.
type grpcCaller struct {
	options []grpc.DialOption
	target  string
	method  string
	payload []byte
	size    int
	header  metadata.MD
	own     own
	keep    bool

	mu     sync.Mutex
	conn   *grpc.ClientConn
	closed bool
}

func newGRPCCaller(spec *Spec, t target, d *dialer) *grpcCaller {
	c := &grpcCaller{
		target: "passthrough:///" + d.addr, method: t.path,
		payload: spec.payload(), size: spec.payloadSize(), header: metadata.MD{}, own: newOwn(spec), keep: spec.KeepAlive,
	}
	for _, h := range spec.Headers {
		c.header.Append(h.Name, h.Value)
	}
	c.options = []grpc.DialOption{
		grpc.WithAuthority(t.hostPort),
		grpc.WithUserAgent("meshtrial"),
		grpc.WithDisableServiceConfig(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		// TLS is done by our dialer, so that it is done alike everywhere.
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return d.dial(ctx) }),
		grpc.WithDefaultCallOptions(
			grpc.ForceCodecV2(rawgrpc.Codec{}),
			grpc.MaxCallRecvMsgSize(maxPayloadBytes),
			grpc.MaxCallSendMsgSize(maxPayloadBytes),
		),
	}
	return c
}

func (c *grpcCaller) open() (*grpc.ClientConn, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, false, net.ErrClosed
	}
	if c.conn != nil {
		return c.conn, false, nil
	}
	conn, err := grpc.NewClient(c.target, c.options...)
	if err != nil {
		return nil, false, err
	}
	c.conn = conn
	return conn, true, nil
}

func (c *grpcCaller) connect(ctx context.Context) error {
	conn, _, err := c.open()
	if err != nil {
		return err
	}
	for {
		conn.Connect()
		state := conn.GetState()
		switch state {
		case connectivity.Ready:
			return nil
		case connectivity.TransientFailure:
			return fmt.Errorf("grpc: no connection to %s", strings.TrimPrefix(c.target, "passthrough:///"))
		}
		if !conn.WaitForStateChange(ctx, state) {
			return ctx.Err()
		}
	}
}

func (c *grpcCaller) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.conn != nil {
		c.conn.Close()
	}
}

func (c *grpcCaller) call(ctx context.Context, job job) outcome {
	conn, made, err := c.open()
	if err != nil {
		return failedWith(failOther)
	}
	out := outcome{}
	if made {
		out.connections++
	}
	n := c.size
	if job.size >= 0 {
		n = int(job.size)
	}
	if md := c.own.metadata(c.header, job.n); len(md) > 0 {
		ctx = metadata.NewOutgoingContext(ctx, md)
	}
	reply := rawgrpc.Message{SizeOnly: true}
	err = conn.Invoke(ctx, c.method, &rawgrpc.Message{Body: c.payload[:n]}, &reply)
	out.bytesSent, out.bytesRead = int64(n), reply.Size
	if err != nil {
		out.failed, out.kind = true, grpcKind(ctx, conn, err)
		if out.kind == failStatus {
			out.status = int(status.Code(err))
		}
	}
	if !c.keep {
		c.mu.Lock()
		conn.Close()
		c.conn = nil
		c.mu.Unlock()
	}
	return out
}

// grpcKind sorts a status: those that the library makes of a lost connection
// are not the server's answer.
func grpcKind(ctx context.Context, conn *grpc.ClientConn, err error) failure {
	switch s := status.Convert(err); s.Code() {
	case codes.DeadlineExceeded:
		return failTimeout
	case codes.Unavailable:
		if strings.Contains(s.Message(), "connection error") || conn.GetState() == connectivity.TransientFailure {
			return failConnect
		}
		if strings.Contains(s.Message(), "reset") {
			return failReset
		}
		if strings.Contains(s.Message(), "EOF") || strings.Contains(s.Message(), "closing") {
			return failEOF
		}
		return failStatus
	default:
		return failStatus
	}
}
