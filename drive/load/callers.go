package load

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/meshtrial/meshtrial/drive/load/http1"
)

// newCallers returns one caller for each connection.
func newCallers(spec *Spec, t target, addr *net.TCPAddr) ([]caller, error) {
	d := &dialer{addr: addr.String()}
	if t.tls {
		config, err := spec.tlsConfig(t)
		if err != nil {
			return nil, err
		}
		d.tls = config
	}
	speak := dialects[t.protocol.Name]
	if speak.wire != nil {
		speak.caller = overWire(speak.wire(spec, t))
	}
	callers := make([]caller, spec.Connections)
	for i := range callers {
		callers[i] = speak.caller(spec, t, d)
	}
	return callers, nil
}

// tlsConfig turns the Spec's options into those of crypto/tls.
func (s *Spec) tlsConfig(t target) (*tls.Config, error) {
	config := &tls.Config{ServerName: t.host}
	if t.protocol.ALPN != "" {
		config.NextProtos = []string{t.protocol.ALPN}
	}
	if s.TLS == nil {
		return config, nil
	}
	if s.TLS.ServerName != "" {
		config.ServerName = s.TLS.ServerName
	}
	config.InsecureSkipVerify = s.TLS.InsecureSkipVerify
	if s.TLS.CAPEM != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(s.TLS.CAPEM)) {
			return nil, fmt.Errorf("tls: ca_pem holds no certificate")
		}
	}
	if s.TLS.CertPEM != "" {
		pair, err := tls.X509KeyPair([]byte(s.TLS.CertPEM), []byte(s.TLS.KeyPEM))
		if err != nil {
			return nil, fmt.Errorf("tls: client certificate: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// dialer makes connections to the one address of a run.
type dialer struct {
	addr string
	tls  *tls.Config
}

// tcp makes a connection without TLS.
func (d *dialer) tcp(ctx context.Context) (net.Conn, error) {
	conn, err := (&net.Dialer{KeepAlive: -1}).DialContext(ctx, "tcp", d.addr)
	if err != nil {
		return nil, &kindError{failConnect, err}
	}
	return conn, nil
}

// dial makes a connection, with TLS if the target has it.
func (d *dialer) dial(ctx context.Context) (net.Conn, error) {
	conn, err := d.tcp(ctx)
	if err != nil || d.tls == nil {
		return conn, err
	}
	secure := tls.Client(conn, d.tls)
	if err := secure.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, &kindError{failTLS, fmt.Errorf("tls handshake with %s: %w", d.addr, err)}
	}
	return secure, nil
}

// kindError is an error whose kind of failure is known.
type kindError struct {
	kind failure
	err  error
}

func (e *kindError) Error() string { return e.err.Error() }
func (e *kindError) Unwrap() error { return e.err }

// kindOf returns the kind of failure that err is.
func kindOf(ctx context.Context, err error) failure {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
		return failTimeout
	}
	var k *kindError
	if errors.As(err, &k) {
		return k.kind
	}
	return classify(err)
}

// wireCaller speaks HTTP/1.1 or TCP echo over a blocking connection: the way
// for TLS.
type wireCaller struct {
	wire   *wire
	dialer *dialer
	keep   bool
	answer answer
	buf    []byte
	fill   int // bytes of buf that are read but not taken
	out    []byte

	mu     sync.Mutex
	conn   net.Conn
	closed bool
}

// overWire returns what makes callers that speak w.
func overWire(w *wire) func(*Spec, target, *dialer) caller {
	return func(spec *Spec, _ target, d *dialer) caller {
		return &wireCaller{wire: w, dialer: d, keep: spec.KeepAlive, buf: make([]byte, 16<<10), answer: w.newAnswer(&http1.Cache{})}
	}
}

func (c *wireCaller) connect(ctx context.Context) error {
	conn, err := c.dialer.dial(ctx)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		conn.Close()
		return net.ErrClosed
	}
	c.conn = conn
	return nil
}

func (c *wireCaller) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.drop()
}

// drop closes the connection. The caller holds the lock.
func (c *wireCaller) drop() {
	if c.conn == nil {
		return
	}
	// Without this a TLS connection would wait for its close alert to be
	// sent.
	_ = c.conn.SetDeadline(time.Now().Add(10 * time.Millisecond))
	c.conn.Close()
	c.conn, c.fill = nil, 0
}

func (c *wireCaller) call(ctx context.Context, job job) outcome {
	out := outcome{}
	c.mu.Lock()
	conn := c.conn
	c.mu.Unlock()
	if conn == nil {
		out.connections++
		if err := c.connect(ctx); err != nil {
			out.failed, out.kind = true, kindOf(ctx, err)
			return out
		}
		c.mu.Lock()
		conn = c.conn
		c.mu.Unlock()
		if conn == nil {
			out.failed, out.kind = true, failOther
			return out
		}
	}
	again, err := c.exchange(ctx, conn, job, &out)
	if err != nil {
		out.failed, out.kind = true, kindOf(ctx, err)
	} else {
		out.status = c.answer.status()
		if !c.answer.ok() {
			out.failed, out.kind = true, failStatus
		}
	}
	if err != nil || !again || !c.keep {
		c.mu.Lock()
		c.drop()
		c.mu.Unlock()
	}
	return out
}

// exchange sends one request and reads its response. again says whether the
// connection can carry another.
func (c *wireCaller) exchange(ctx context.Context, conn net.Conn, job job, out *outcome) (again bool, err error) {
	deadline, _ := ctx.Deadline()
	_ = conn.SetDeadline(deadline)
	b := c.wire.request(&c.out, job.size, job.n)
	c.answer.begin(b)
	n, err := conn.Write(b)
	out.bytesSent += int64(n)
	if err != nil {
		return false, err
	}
	c.fill = 0
	for {
		if c.fill == len(c.buf) {
			c.buf = append(c.buf, make([]byte, len(c.buf))...) // bounded by http1.MaxHead
		}
		n, err := conn.Read(c.buf[c.fill:])
		out.bytesRead += int64(n)
		c.fill += n
		used, done, bad := c.answer.feed(c.buf[:c.fill])
		if bad != nil {
			return false, &kindError{failProtocol, bad}
		}
		left := copy(c.buf, c.buf[used:c.fill])
		c.fill = left
		if done {
			return left == 0 && err == nil && !c.answer.closes(), nil
		}
		if err != nil {
			if isEOF(err) {
				if c.answer.eof() {
					return false, nil
				}
				return false, &kindError{failEOF, err}
			}
			return false, err
		}
	}
}

func isEOF(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }
