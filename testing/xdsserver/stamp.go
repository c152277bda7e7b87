package xdsserver

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// stamped notes when bytes of a stream's messages were handed to the kernel.
// gRPC has a goroutine write what a handler sent, so that the moment of
// sending says little about the wire on a busy machine.
type stamped struct {
	net.Conn
	at atomic.Int64 // when the write that held the latest DATA frame began, unix ns

	// Of the frame under way: how many bytes of its header and of its
	// payload are still to come. Only gRPC's one writer touches them.
	header [9]byte
	have   int
	rest   int
}

// Write passes bytes on and looks for DATA frames (RFC 9113, section 4.1).
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
	net.Listener
	conns sync.Map // of *stamped by address
}

func (s *stamps) Accept() (net.Conn, error) {
	conn, err := s.Listener.Accept()
	if err != nil {
		return nil, err
	}
	out := &stamped{Conn: conn}
	s.conns.Store(conn.RemoteAddr().String(), out)
	return out, nil
}

// Close of a connection forgets it only with the listener: streams that end
// later still ask for it.
func (s *stamps) of(address string) *stamped {
	c, _ := s.conns.Load(address)
	out, _ := c.(*stamped)
	return out
}
