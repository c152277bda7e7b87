// Package scriptconn has connections for fuzz tests of servers: the client sends
// a fixed input, receives the answers, and waits for nothing.
package scriptconn

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// Conn is the server's end of such a connection. Deadlines have no effect:
// nothing on it ever waits.
type Conn struct {
	pieces, most int

	mu      sync.Mutex
	say     []byte
	heard   []byte
	over    bool
	closing sync.Once
	closed  chan struct{}
}

// New returns a connection on which the client sends say, with pieces bytes in
// each read of the server's (0: as many as fit), and receives at most most
// bytes: writing more is an error for the server.
func New(say []byte, pieces, most int) *Conn {
	return &Conn{say: bytes.Clone(say), pieces: pieces, most: most, closed: make(chan struct{})}
}

// Read returns what the client sends, then io.EOF.
func (c *Conn) Read(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.isClosed():
		return 0, net.ErrClosed
	case len(c.say) == 0:
		return 0, io.EOF
	case c.pieces > 0 && len(b) > c.pieces:
		b = b[:c.pieces]
	}
	n := copy(b, c.say)
	c.say = c.say[n:]
	return n, nil
}

// Write delivers data to the client.
func (c *Conn) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.isClosed():
		return 0, net.ErrClosed
	case len(c.heard)+len(b) > c.most:
		c.over = true
		return 0, errors.New("nobody listens any more")
	}
	c.heard = append(c.heard, b...)
	return len(b), nil
}

// Close ends the connection.
func (c *Conn) Close() error {
	c.closing.Do(func() { close(c.closed) })
	return nil
}

// Closed returns a channel that is closed with the connection.
func (c *Conn) Closed() <-chan struct{} { return c.closed }

func (c *Conn) isClosed() bool {
	select {
	case <-c.closed:
		return true
	default:
		return false
	}
}

// Heard returns what the client received, and whether there was more than it
// accepts.
func (c *Conn) Heard() (heard []byte, over bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Clone(c.heard), c.over
}

func (*Conn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (*Conn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (*Conn) SetDeadline(time.Time) error      { return nil }
func (*Conn) SetReadDeadline(time.Time) error  { return nil }
func (*Conn) SetWriteDeadline(time.Time) error { return nil }

// Listener delivers such connections to a server.
type Listener struct {
	come chan net.Conn
	done chan struct{}
	once sync.Once
}

// Listen returns a listener without connections.
func Listen() *Listener { return &Listener{come: make(chan net.Conn), done: make(chan struct{})} }

// Come delivers a connection to the server, which must accept it.
func (l *Listener) Come(c net.Conn) { l.come <- c }

// Accept implements [net.Listener].
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.come:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (l *Listener) Close() error { l.once.Do(func() { close(l.done) }); return nil }

// Addr implements [net.Listener].
func (*Listener) Addr() net.Addr { return &net.TCPAddr{} }
