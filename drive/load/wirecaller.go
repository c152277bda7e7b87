package load

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/meshtrial/meshtrial/drive/load/http1"
)

// wireCaller speaks HTTP/1.1 or TCP echo over a blocking connection. It is used
// for TLS.
type wireCaller struct {
	wire   *wire
	dialer *dialer
	keep   bool
	answer answer
	buf    []byte
	fill   int // bytes of buf that are read but not parsed
	out    []byte

	mu     sync.Mutex
	conn   net.Conn
	closed bool
}

// overWire returns a constructor of callers that speak w.
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
	// Do not wait for the close alert of TLS to be sent.
	_ = c.conn.SetDeadline(time.Now().Add(10 * time.Millisecond))
	c.conn.Close()
	c.conn, c.fill = nil, 0
}

// open returns the connection, and whether it is new.
func (c *wireCaller) open(ctx context.Context) (conn net.Conn, made bool, err error) {
	for {
		c.mu.Lock()
		conn = c.conn
		c.mu.Unlock()
		if conn != nil {
			return conn, made, nil
		}
		made = true
		if err := c.connect(ctx); err != nil {
			return nil, made, err
		}
	}
}

func (c *wireCaller) call(ctx context.Context, n int64) outcome {
	out := outcome{}
	for {
		conn, made, err := c.open(ctx)
		if made {
			out.connections++
		}
		if err != nil {
			out.fail(kindOf(ctx, err), err)
			return out
		}
		below := watchedOf(conn)
		before := below.written.Load()
		again, err := c.exchange(ctx, conn, n, &out)
		if err != nil || !again || !c.keep {
			c.mu.Lock()
			c.drop()
			c.mu.Unlock()
		}
		if err != nil {
			kind := kindOf(ctx, err)
			if kind == failEOF && !made && below.unread(before) {
				out.bytesSent, out.bytesRead = 0, 0
				continue // it was not read: retry on another connection
			}
			out.fail(kind, err)
			return out
		}
		out.status = c.answer.status()
		if !c.answer.ok() {
			out.fail(failStatus, statusError(out.status))
		}
		return out
	}
}

// writtenFirst is the largest request, in bytes, that is written before its response
// is read: an idle socket takes it immediately.
const writtenFirst = 4 << 10

// exchange sends a request and reads its response, which may arrive before the request
// is written. again reports whether the connection can carry another request.
func (c *wireCaller) exchange(ctx context.Context, conn net.Conn, n int64, out *outcome) (again bool, err error) {
	deadline, _ := ctx.Deadline()
	_ = conn.SetDeadline(deadline)
	b := c.wire.request(&c.out, n)
	c.answer.begin(b)
	if len(b) <= writtenFirst {
		n, failed := conn.Write(b)
		out.bytesSent += int64(n)
		again, err = c.receive(conn, out) // there may be a response anyway
		return again && failed == nil, err
	}
	wrote := make(chan error, 1)
	sent := int64(0)
	go func() {
		n, err := conn.Write(b)
		sent = int64(n)
		wrote <- err
	}()
	again, err = c.receive(conn, out)
	_ = conn.SetWriteDeadline(time.Unix(1, 0)) // the rest of the request is not needed
	failed := <-wrote
	out.bytesSent += sent
	return again && failed == nil, err
}

// receive reads the response.
func (c *wireCaller) receive(conn net.Conn, out *outcome) (again bool, err error) {
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
			return false, &kindError{failProtocol, c.answer.explain(bad, c.buf[:c.fill], used)}
		}
		left := copy(c.buf, c.buf[used:c.fill])
		c.fill = left
		if done {
			return left == 0 && err == nil && !c.answer.closes(), nil
		}
		if err != nil {
			if isEOF(err) && c.answer.eof() {
				return false, nil
			}
			return false, err
		}
	}
}
