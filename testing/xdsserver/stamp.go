package xdsserver

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// stamped records when bytes of a stream's messages were passed to the kernel.
// gRPC writes a handler's messages from another goroutine, so on a busy machine
// the time of sending says little about the wire.
type stamped struct {
	net.Conn
	at atomic.Int64 // when the write with the latest DATA frame began, in Unix ns

	// Remaining bytes of the header and the payload of the current frame. Only
	// gRPC's single writer uses them.
	header [9]byte
	have   int
	rest   int
}

// Write forwards bytes and looks for DATA frames (RFC 9113, section 4.1).
func (c *stamped) Write(b []byte) (int, error) {
	begin := time.Now().UnixNano()
	for rest := b; len(rest) > 0; {
		if c.rest > 0 {
			n := min(c.rest, len(rest))
			c.rest -= n
			rest = rest[n:]
			if c.header[3] == 0 { // DATA
				c.at.Store(begin)
			}
			continue
		}
		n := copy(c.header[c.have:], rest)
		c.have += n
		rest = rest[n:]
		if c.have == len(c.header) {
			c.have = 0
			c.rest = int(c.header[0])<<16 | int(c.header[1])<<8 | int(c.header[2])
		}
	}
	return c.Conn.Write(b)
}

// stamps finds connections by the client's address.
type stamps struct {
	conns sync.Map // of *stamped by address
}

// stamping is a listener of such connections.
type stamping struct {
	net.Listener
	stamps *stamps
}

func (s *stamping) Accept() (net.Conn, error) {
	conn, err := s.Listener.Accept()
	if err != nil {
		return nil, err
	}
	out := &stamped{Conn: conn}
	s.stamps.conns.Store(conn.RemoteAddr().String(), out)
	return out, nil
}

// of returns the connection from a client's address. Closed ones stay: there are
// few in a test.
func (s *stamps) of(address string) *stamped {
	c, _ := s.conns.Load(address)
	out, _ := c.(*stamped)
	return out
}
