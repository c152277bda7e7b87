package load

import (
	"github.com/meshtrial/meshtrial/drive/load/arrival"
	"golang.org/x/sys/unix"
)

// connState is the state of a connection:
//
//	shut -> connecting -> busy -> idle -> busy ... -> shut
//	                       busy -> closing -> shut   (no keep-alive)
type connState uint8

const (
	shut       connState = iota // no socket
	connecting                  // a request waits for it, except before the start
	idle                        // open, without a request
	busy                        // a request is in flight
	closing                     // answered; waiting for the peer to close
	held                        // no socket, waiting out closeGrace
)

// closeGrace is how long, in ns, a connection without keep-alive waits for the peer to
// close it as announced. After that the connection is reset, which leaves no port in
// TIME_WAIT on this side either. If the peer announced no close (a TCP echo), the
// connection is reset immediately.
//
// It is also the delay before a failed connection is retried at rate max, which would
// otherwise retry continuously.
const closeGrace = 20_000_000

// conn is one connection or, with keep-alive off, a slot for one connection at a
// time.
type conn struct {
	fd         int
	id         int32
	generation int32 // of the socket, to recognise late events of earlier ones
	state      connState
	heeded     bool  // counted in loop.attention while busy
	fresh      bool  // made for its request: it has carried no other
	heard      bool  // part of the response has arrived
	prev, next int32 // in loop.waiting or loop.resting
	freeAt     int64
	written    int64 // bytes, on this socket
	before     int64 // bytes written before the request in flight
	req        request
	out        []byte // still to be written
	in         []byte // read, but not parsed yet
	scratch    []byte
	answer     answer
}

// send sends a due request on a free connection.
func (l *loop) send(c *conn, due arrival.Request, free, now int64) {
	if l.streams != nil {
		if !l.max {
			free = due.Offset // a stream is always free
		}
		l.say(c, due, free, now)
		return
	}
	l.rec.admit(&c.req, due.Offset)
	c.req.rate = due.RateRPS
	l.rec.sent(&c.req, free, now)
	l.waiting.push(l.conns, c.id)
	if l.careful && !l.watching && c.state == idle && sysClosed(c.fd) {
		l.shut(c, true) // a loop that had not slept would have seen the close
	}
	if c.state == shut {
		l.open(c, now)
		return
	}
	l.write(c)
}

// open starts to connect for the waiting request.
func (l *loop) open(c *conn, now int64) {
	c.req.tally.Connects++
	if err := l.connect(c); err != nil {
		l.failed(c, failConnect, now, err)
	}
}

// connect starts to connect.
func (l *loop) connect(c *conn) error {
	fd, err := l.endpoint.dial()
	if err != nil {
		return err
	}
	c.generation++
	if err := l.sockets.add(fd, c.id, c.generation); err != nil {
		sysClose(fd, false)
		return err
	}
	if !l.max {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1) // without, see stamped.recv
	}
	c.fd, c.state = fd, connecting
	c.fresh, c.written = true, 0
	l.attention++
	return nil
}

// write starts to write the request on an open connection.
func (l *loop) write(c *conn) {
	c.state, c.heard, c.before = busy, false, c.written
	b := l.wire.request(&c.scratch, c.req.n)
	c.answer.begin(b)
	c.out = b
	c.req.tally.BytesSent += int64(len(b))
	l.flush(c)
	if len(c.out) > 0 {
		l.heed(c)
	}
}

// heed counts the connection as needing attention until it is answered or shut.
func (l *loop) heed(c *conn) {
	if !c.heeded {
		c.heeded = true
		l.attention++
	}
}

func (l *loop) unheed(c *conn) {
	if c.heeded {
		c.heeded = false
		l.attention--
	}
}

// flush writes as much as the socket takes; epoll reports when it takes more. A
// write error surfaces when the answer is read.
func (l *loop) flush(c *conn) {
	for len(c.out) > 0 {
		n, errno := sysSend(c.fd, c.out)
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 {
			if errno != unix.EAGAIN {
				c.out = c.out[:0]
			}
			return
		}
		c.out = c.out[n:]
		c.written += int64(n)
	}
}

// ready handles the epoll events of a connection. It returns the current time if it
// read the clock, else now.
func (l *loop) ready(c *conn, events uint32, generation int32, now int64) int64 {
	if l.streams != nil {
		return l.streamReady(c, events, generation, now)
	}
	if generation != c.generation {
		return now // an event of a socket that was closed since
	}
	switch c.state {
	case connecting:
		if errno := socketError(c.fd); errno != 0 {
			l.failed(c, failConnect, now, errno)
			return now
		}
		if events&unix.EPOLLOUT != 0 {
			l.attention--
			l.write(c)
		}
		return now
	case busy:
		if events&unix.EPOLLOUT != 0 && len(c.out) > 0 {
			l.flush(c)
		}
		if events&^unix.EPOLLOUT != 0 {
			return l.read(c, events, now)
		}
	case idle:
		if events&^unix.EPOLLOUT != 0 {
			l.leave(c, true) // closed by the peer, or unsolicited data
		}
	case closing:
		if events&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
			l.rested(c, l.now(), false)
		}
	}
	return now
}

// read reads the bytes that have arrived for a busy connection.
func (l *loop) read(c *conn, events uint32, now int64) int64 {
	ending := events&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0
	for {
		var n int
		var errno unix.Errno
		var at int64 // when it arrived, if the kernel reports it
		if l.max {
			n, errno = sysRecv(c.fd, l.buf)
		} else {
			n, at, errno = l.stamped.recv(c.fd, l.buf)
		}
		switch {
		case errno == unix.EINTR:
			continue
		case errno == unix.EAGAIN:
			return now
		case errno != 0:
			now = l.now()
			l.lost(c, classify(errno), now, errno)
			return now
		case n == 0:
			now = l.now()
			if c.answer.eof() {
				l.answered(c, now, true, true)
			} else {
				l.lost(c, failEOF, now, errClosed)
			}
			return now
		}
		now = l.now()
		c.heard = true
		c.req.tally.BytesRead += int64(n)
		l.large = l.large || n > lazyBytes
		b := l.buf[:n]
		if len(c.in) > 0 {
			c.in = append(c.in, b...)
			b = c.in
		}
		used, done, err := c.answer.feed(b)
		if err != nil {
			if l.why.wanted(failProtocol) {
				err = c.answer.explain(err, b, used)
			}
			l.failed(c, failProtocol, now, err)
			return now
		}
		if done {
			came := now
			if at >= c.req.sent && at < now {
				came = at
			}
			l.answered(c, came, used == len(b) && len(c.out) == 0, ending)
			return now
		}
		l.heed(c)
		c.in = append(c.in[:0], b[used:]...)
		if n < len(l.buf) && !ending {
			return now // drained: the next bytes cause another event
		}
	}
}

// answered records a complete response. clean reports that no leftover bytes would
// corrupt the next request on the connection; ended, that the peer has closed it.
func (l *loop) answered(c *conn, now int64, clean, ended bool) {
	if c.answer.ok() {
		l.rec.complete(&c.req, now, c.answer.status())
	} else {
		l.rec.fail(&c.req, failStatus, now, c.answer.status())
		if l.why.wanted(failStatus) {
			l.why.add(failStatus, statusError(c.answer.status()))
		}
	}
	l.waiting.remove(l.conns, c.id)
	l.unheed(c)
	c.in = c.in[:0]
	switch {
	case ended:
		l.shut(c, false)
	case l.keepAlive && clean && !c.answer.closes():
		c.state, c.fresh = idle, false
	case clean && c.answer.closes():
		c.state = closing
		c.freeAt = now
		l.resting.push(l.conns, c.id)
		return
	default:
		l.shut(c, true)
	}
	l.release(c, now)
}

// rested ends the wait of a closing or held connection.
func (l *loop) rested(c *conn, now int64, reset bool) {
	l.resting.remove(l.conns, c.id)
	if c.state == closing {
		l.shut(c, reset)
	}
	c.state = shut
	l.release(c, now)
}

// lost handles the end of a connection before its response is complete. If the peer had
// already closed the connection, it never read the request, which is then sent again on
// another connection.
func (l *loop) lost(c *conn, kind failure, now int64, why error) {
	if c.fresh || c.heard || kind != failEOF || !unread(c.fd, c.before) {
		l.failed(c, kind, now, why)
		return
	}
	c.req.tally.BytesSent -= int64(len(l.wire.request(&c.scratch, c.req.n)))
	l.shut(c, true)
	l.open(c, now)
}

// failed records a failure and closes the connection.
func (l *loop) failed(c *conn, kind failure, now int64, why error) {
	l.rec.fail(&c.req, kind, now, 0)
	l.why.add(kind, why)
	l.waiting.remove(l.conns, c.id)
	if c.state != shut {
		l.shut(c, true)
	}
	if l.max && kind == failConnect {
		c.state, c.freeAt = held, now
		l.resting.push(l.conns, c.id)
		return
	}
	l.release(c, now)
}

// shut closes the socket.
func (l *loop) shut(c *conn, reset bool) {
	l.unheed(c)
	if c.state == connecting || c.state == opening {
		l.attention--
	}
	sysClose(c.fd, reset)
	c.generation++
	c.state = shut
	c.out, c.in = nil, c.in[:0]
}
