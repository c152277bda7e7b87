package worker

import (
	"net"
	"sync"
	"sync/atomic"
)

// countingListener counts accepted and open connections, and closes those over the
// limit immediately.
type countingListener struct {
	net.Listener
	p     *protocolCounters
	all   *atomic.Int64 // open connections of the whole worker
	limit int64
}

func (l *countingListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.all.Add(1) > l.limit {
			l.all.Add(-1)
			l.p.refused.Add(1)
			conn.Close()
			continue
		}
		l.p.connections.Add(1)
		l.p.open.Add(1)
		return &countedConn{Conn: conn, l: l}, nil
	}
}

type countedConn struct {
	net.Conn
	l    *countingListener
	once sync.Once
}

// NetConn returns the underlying connection, like that of tls.Conn.
func (c *countedConn) NetConn() net.Conn { return c.Conn }

func (c *countedConn) Close() error {
	c.once.Do(func() {
		c.l.p.open.Add(-1)
		c.l.all.Add(-1)
	})
	return c.Conn.Close()
}
