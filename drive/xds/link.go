package xds

import (
	"container/heap"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/meshtrial/meshtrial/drive/xds/stream"
)

// link is a connection, from before it is dialled until it has ended, and the
// proxies that use it.
type link struct {
	fleet   *Fleet
	key     linkKey
	used    int    // proxies on it; guarded by the gate's lock
	scratch []byte // guarded by the connection's lock

	mu      sync.Mutex
	conn    *stream.Conn
	pending []*proxy // waiting for the connection
	dead    error    // why the connection ended
}

// linkKey identifies the connections that a proxy may share.
type linkKey struct {
	address  string
	identity string // whose certificate it presents; "" if any proxy may share it
	slow     bool   // has small windows
}

// Sizes of connections.
const (
	slowWindow = 16 << 10  // of each stream of slow readers, bytes
	maxMessage = 256 << 20 // bytes of a response
	sharedRead = 64 << 10  // bytes per read of a socket that streams share
	singleRead = 4 << 10
)

// place finds a connection with room for a proxy, or opens one. g.mu is held.
func (g *gate) place(p *proxy) *link {
	f := g.fleet
	key := linkKey{slow: p.spec.behaviour() == BehaviourSlowReader}
	if f.spec.Security.Mode == SecurityMTLS {
		if key.identity = p.spec.identity(); f.security[key.identity] == nil {
			key.identity = ""
		}
	}
	key.address = f.spec.Addresses[int(p.index)%len(f.spec.Addresses)]
	// Do not keep a proxy on a failing address.
	if p.attempts > 2 {
		key.address = f.spec.Addresses[(int(p.index)+p.attempts)%len(f.spec.Addresses)]
	}
	if list := g.open[key]; len(list) > 0 {
		l := list[len(list)-1]
		if l.used++; l.used >= f.spec.StreamsPerConnection {
			g.open[key] = list[:len(list)-1]
		}
		return l
	}
	l := &link{fleet: f, key: key, used: 1}
	g.links[l] = true
	if f.spec.StreamsPerConnection > 1 {
		g.open[key] = append(g.open[key], l)
	}
	f.owned.Go(l.run)
	return l
}

// leave removes a proxy from a connection. g.mu is held.
func (g *gate) leave(l *link) {
	l.used--
	if !g.links[l] {
		return
	}
	if l.fleet.spec.StreamsPerConnection == 1 {
		heap.Push(&g.due, timedAction{action: action{what: closeLink, link: l}}) // immediately
		return
	}
	if l.used == l.fleet.spec.StreamsPerConnection-1 {
		g.open[l.key] = append(g.open[l.key], l)
	}
}

// retire keeps a connection from accepting more proxies.
func (g *gate) retire(l *link) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.links, l)
	if i := slices.Index(g.open[l.key], l); i >= 0 {
		g.open[l.key] = slices.Delete(g.open[l.key], i, i+1)
	}
}

// run is the goroutine of a connection.
func (l *link) run() {
	f := l.fleet
	conn, err := stream.Dial(f.ctx, l.key.address, l.options())
	if err != nil {
		f.gate.retire(l)
		l.fail(err)
		return
	}
	closed := make(chan struct{})
	stop := context.AfterFunc(f.ctx, func() {
		defer close(closed)
		conn.Close()
	})
	defer func() {
		if !stop() {
			<-closed
		}
	}()
	l.mu.Lock()
	l.conn = conn
	pending := l.pending
	l.pending = nil
	l.mu.Unlock()
	_ = conn.Do(func() { // if the connection broke, Run reports it
		for _, p := range pending {
			l.openLocked(p)
		}
	})
	err = conn.Run()
	f.gate.retire(l)
	l.fail(err)
}

func (l *link) options() stream.Options {
	f := l.fleet
	o := stream.Options{Dial: f.spec.Dial, Window: f.spec.Window, Streams: f.spec.StreamsPerConnection, MaxMessage: maxMessage, ReadBuffer: sharedRead}
	if l.key.slow {
		o.Window = min(o.Window, slowWindow)
	}
	if o.Streams == 1 {
		o.ReadBuffer = singleRead
	}
	if f.security != nil {
		o.TLS, _ = lookup(f.security, l.key.identity)
		o.Authority = o.TLS.ServerName
	}
	o.OnRead = func(waited int64) {
		if waited < 0 {
			f.unstamped.Add(1)
			return
		}
		f.lag.add(waited)
	}
	// Before the first marker, no convergence depends on the time of a message,
	// and the lag excludes this wait.
	o.MayWait = func() bool { return len(*f.catalogue.markers.Load()) == 0 }
	if !l.key.slow { // a slow reader is late on purpose
		o.OnTurn = f.turns.add
	}
	return o
}

// fail ends a link without a connection.
func (l *link) fail(err error) {
	l.mu.Lock()
	l.dead = err
	pending := l.pending
	l.pending = nil
	l.mu.Unlock()
	for _, p := range pending {
		l.fleet.failed(p, reasonDial, err)
	}
}

// connect opens a stream for a proxy, now or as soon as the connection is
// established. It returns false if the connection is busy.
func (l *link) connect(p *proxy) (done bool) {
	l.mu.Lock()
	conn, dead := l.conn, l.dead
	if conn == nil && dead == nil {
		l.pending = append(l.pending, p)
	}
	l.mu.Unlock()
	switch {
	case dead != nil:
		l.fleet.failed(p, reasonDial, dead)
	case conn != nil:
		done, _ = conn.TryDo(func() { l.openLocked(p) }) // if the connection broke, Run reports it
		return done
	}
	return true
}

// openLocked opens a stream; the connection's lock is held.
func (l *link) openLocked(p *proxy) {
	err := p.open(l.conn)
	if err == nil {
		return
	}
	if errors.Is(err, stream.ErrFull) {
		l.fleet.gate.retire(l)
	}
	l.fleet.failed(p, reasonDial, err)
}

// current returns the connection; nil if there is none yet.
func (l *link) current() *stream.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conn
}

// do calls f under the connection's lock, if there is a connection. It returns
// false if the connection is busy.
func (l *link) do(f func()) (done bool) {
	conn := l.current()
	if conn == nil {
		return true
	}
	done, _ = conn.TryDo(f) // if the connection broke, Run reports it
	return done
}

// ping pings the peer unless the connection is busy, which means it is alive.
func (l *link) ping() {
	if conn := l.current(); conn != nil {
		_, _ = conn.Ping() // if the connection broke, Run reports it
	}
}

func (l *link) close() {
	if conn := l.current(); conn != nil {
		conn.Close()
	}
}
