package load

import (
	"errors"
	"fmt"

	"github.com/meshtrial/meshtrial/drive/load/arrival"
	"golang.org/x/sys/unix"
)

// opening is the state of a connection whose stream was requested. An open one is idle, or busy
// while messages wait for their answers:
//
//	shut -> connecting -> opening -> idle <-> busy -> shut -> connecting ...
//	            held <-       held <-                         (it could not be opened)
const opening connState = held + 1

// streams is the part of an event loop whose connections carry streams of messages. Message k of the
// loop belongs to stream k modulo their number, and is sent when it is due, whatever else is under
// way there, unless the peer has left mostQueued bytes unread. If a stream is lost, so are the messages
// without an answer on it, and all that are due on it until it is open again. If the server ends it in
// an orderly way, they wait for that instead.
type streams struct {
	all      []streamState // by connection
	turn     int           // stream of the next message
	messages messages
	idle     int   // streams without a message
	before   bool  // the run has not begun: streams are not reopened
	refused  error // why a stream could not be opened before the run
}

// streamState is the stream of a connection.
type streamState struct {
	channel     channel
	first, last int32 // messages without an answer, in order
	n           int   // of them
	unsent      int32 // the first of them whose bytes were not queued yet
	moving      bool  // the server ended it in an orderly way
	leaving     bool  // open, but takes no more messages
	why         error // it is not open
	begun       int64 // when it was last requested
}

// mostQueued is how many bytes a stream queues before further messages wait, so that a peer that does
// not read cannot fill the memory.
const mostQueued = 1 << 20

// message is a message without an answer.
type message struct {
	req        request
	conn       int32
	sent       bool  // its bytes were counted
	prev, next int32 // in the order of sending, over all streams; next of unused ones
	behind     int32 // the next one on its stream
}

// messages links messages in the order of sending: the first times out first.
type messages struct {
	list        []message
	first, last int32
	unused      int32
}

func newStreams(spec *Spec, t target, conns, from int) *streams {
	s := &streams{all: make([]streamState, conns), messages: messages{first: none, last: none, unused: none}, idle: conns, before: true}
	for i := range s.all {
		s.all[i] = streamState{channel: dialects[t.protocol.Name].channel(spec, t, from+i), first: none, last: none, unsent: none, why: errNotOpen}
	}
	return s
}

// add appends a message to a stream.
func (s *streams) add(id int32) int32 {
	m := &s.messages
	n := m.unused
	if n == none {
		n = int32(len(m.list))
		m.list = append(m.list, message{next: none})
	}
	one := &m.list[n]
	m.unused = one.next
	*one = message{conn: id, prev: m.last, next: none, behind: none}
	if m.last == none {
		m.first = n
	} else {
		m.list[m.last].next = n
	}
	m.last = n
	on := &s.all[id]
	if on.last == none {
		on.first = n
		s.idle--
	} else {
		m.list[on.last].behind = n
	}
	on.last = n
	on.n++
	if on.unsent == none {
		on.unsent = n
	}
	return n
}

// pop removes the first message of a stream.
func (s *streams) pop(id int32) *message {
	m, on := &s.messages, &s.all[id]
	n := on.first
	one := &m.list[n]
	if on.first = one.behind; on.first == none {
		on.last = none
		s.idle++
	}
	if on.unsent == n {
		on.unsent = one.behind
	}
	on.n--
	if one.prev == none {
		m.first = one.next
	} else {
		m.list[one.prev].next = one.next
	}
	if one.next == none {
		m.last = one.prev
	} else {
		m.list[one.next].prev = one.prev
	}
	one.next, m.unused = m.unused, n
	return one
}

// errNotOpen is why messages fail before a stream was ever open.
var errNotOpen = errors.New("the stream was not open: it was not opened in time")

// takeTurn returns the connection of the next message.
func (l *loop) takeTurn() *conn {
	s := l.streams
	c := &l.conns[s.turn]
	s.turn = (s.turn + 1) % len(s.all)
	return c
}

// say sends a due message on its stream, or accounts for it if that is not open.
func (l *loop) say(c *conn, due arrival.Request, free, now int64) {
	s := l.streams
	on := &s.all[c.id]
	n := s.add(c.id)
	m := &s.messages.list[n]
	l.rec.admit(&m.req, due.Offset)
	m.req.rate = due.RateRPS
	l.rec.sent(&m.req, free, now)
	switch {
	case c.state == idle || c.state == busy:
		if !on.leaving {
			c.state = busy
			l.push(c)
		}
	case on.moving:
	case l.max:
		on.moving = true
		l.reopen(c, now)
	default:
		l.rec.fail(&m.req, failStream, now, 0)
		l.why.add(failStream, on.why)
		s.pop(c.id) // it was the only one
	}
}

// utters reports whether the next unsent message of a stream can be queued now.
func (l *loop) utters(c *conn) bool {
	on := &l.streams.all[c.id]
	return c.state == busy && !on.moving && on.unsent != none && len(c.out) < mostQueued && !on.channel.blocked()
}

// utter queues the bytes of the next unsent message.
func (l *loop) utter(c *conn) {
	on := &l.streams.all[c.id]
	m := &l.streams.messages.list[on.unsent]
	on.unsent = m.behind
	c.out = on.channel.message(c.out)
	if !m.sent {
		m.sent = true
		m.req.tally.BytesSent += int64(l.payload)
	}
}

// push queues and writes as much as a stream takes, and counts whether its events must wake the loop.
func (l *loop) push(c *conn) {
	on := &l.streams.all[c.id]
	for again := true; again; again = len(c.out) == 0 && l.utters(c) {
		if len(c.out) == 0 {
			c.out = c.scratch[:0]
		}
		c.out = on.channel.reply(c.out)
		for l.utters(c) {
			l.utter(c)
		}
		if cap(c.out) > cap(c.scratch) {
			c.scratch = c.out[:0]
		}
		l.flush(c)
	}
	if len(c.out) > 0 || on.n > 1 || len(c.in) > 0 || on.channel.partial() {
		l.heed(c)
	} else {
		l.unheed(c)
	}
}

// reopen begins to open a stream.
func (l *loop) reopen(c *conn, now int64) {
	if counts := l.rec.counts(now); counts != nil {
		counts.Connects++
	}
	if err := l.connect(c); err != nil {
		l.broken(c, failConnect, now, err)
		return
	}
	c.req.sent, l.streams.all[c.id].begun = now, now
	l.waiting.push(l.conns, c.id)
}

// later opens a stream after closeGrace.
func (l *loop) later(c *conn, now int64) {
	c.state, c.freeAt = held, now
	l.resting.push(l.conns, c.id)
}

// openAll begins to open the streams that are not open when the run begins, and those that their server
// has asked to leave: connectAll may have missed their end.
func (l *loop) openAll(now int64) {
	l.streams.before = false
	for i := range l.conns {
		if c := &l.conns[i]; l.streams.all[i].leaving {
			l.moved(c, now)
		} else if c.state == shut && !l.max {
			l.reopen(c, now)
		}
	}
}

// connected requests the stream on a new connection.
func (l *loop) connected(c *conn) {
	c.state = opening
	c.out = l.streams.all[c.id].channel.open(c.scratch[:0])
	l.push(c)
}

// streamReady handles the events of a connection with a stream.
func (l *loop) streamReady(c *conn, events uint32, generation int32, now int64) int64 {
	if generation != c.generation {
		return now
	}
	switch c.state {
	case connecting:
		if errno := socketError(c.fd); errno != 0 {
			l.broken(c, failConnect, now, errno)
		} else if events&unix.EPOLLOUT != 0 {
			l.connected(c)
		}
	case opening, idle, busy:
		if events&unix.EPOLLOUT != 0 && len(c.out) > 0 {
			l.push(c)
		}
		if events&^unix.EPOLLOUT != 0 {
			return l.hear(c, events, now)
		}
	}
	return now
}

// hear reads what has arrived on a stream.
func (l *loop) hear(c *conn, events uint32, now int64) int64 {
	ending := events&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0
	for {
		n, at, errno := l.stamped.recv(c.fd, l.buf)
		switch {
		case errno == unix.EINTR:
			continue
		case errno == unix.EAGAIN:
			return now
		}
		now = l.now()
		switch {
		case errno != 0:
			l.broken(c, classify(errno), now, errno)
			return now
		case n == 0:
			l.broken(c, failEOF, now, errClosed)
			return now
		}
		l.large = l.large || n > lazyBytes
		b := l.buf[:n]
		if len(c.in) > 0 {
			c.in = append(c.in, b...)
			b = c.in
		}
		left, open := l.parse(c, b, at, now)
		if !open {
			return now
		}
		c.in = append(c.in[:0], left...)
		l.push(c)
		if n < len(l.buf) && !ending {
			return now
		}
	}
}

// parse handles what arrived on a stream at a time, by the kernel's timestamp unless at is 0. It
// returns the incomplete rest; open is false if the stream has ended.
func (l *loop) parse(c *conn, b []byte, at, now int64) (left []byte, open bool) {
	on := &l.streams.all[c.id]
	for len(b) > 0 {
		n, what, err := on.channel.next(b)
		if err != nil {
			l.rejected(c, now, err)
			return nil, false
		}
		switch what {
		case unitOpened:
			l.opened(c)
		case unitMessage:
			if on.first == on.unsent { // none, or none that was sent
				l.rejected(c, now, errors.New("a message that answers none"))
				return nil, false
			}
			l.echoed(c, at, now)
		case unitLeaving:
			if c.state == opening {
				l.opened(c)
			}
			on.leaving, on.moving = true, true
		case unitMoved:
			l.moved(c, now)
			return nil, false
		}
		if n == 0 {
			break
		}
		b = b[n:]
	}
	return b, true
}

// rejected ends a stream that its server refused or that violates the protocol.
func (l *loop) rejected(c *conn, now int64, err error) {
	kind, known := failProtocol, &kindError{}
	if status := (&refusedError{}); errors.As(err, &status) {
		kind = failStatus
	} else if errors.As(err, &known) {
		kind = known.kind
	}
	l.broken(c, kind, now, err)
}

// opened has the messages sent that waited for a stream.
func (l *loop) opened(c *conn) {
	on := &l.streams.all[c.id]
	if l.waits(c) {
		l.waiting.remove(l.conns, c.id)
	}
	l.attention-- // of connect
	c.state, on.moving, on.leaving, on.why = idle, false, false, nil
	if on.unsent = on.first; on.first != none {
		c.state = busy
	}
}

// waits reports whether a connection's opening has a timeout.
func (l *loop) waits(c *conn) bool {
	return !l.streams.before && (c.state == connecting || c.state == opening)
}

// echoed records the answer to the first message of a stream.
func (l *loop) echoed(c *conn, at, now int64) {
	s := l.streams
	m := s.pop(c.id)
	came := now
	if at >= m.req.sent && at < now {
		came = at
	}
	m.req.tally.BytesRead += s.all[c.id].channel.size()
	l.rec.complete(&m.req, came, 0)
	if s.all[c.id].n == 0 {
		c.state = idle
		if l.max {
			l.release(c, now)
		}
	}
}

// moved opens a stream again that its server ended in an orderly way.
func (l *loop) moved(c *conn, now int64) {
	if c.state == opening || l.streams.before {
		l.broken(c, failEOF, now, errClosed)
		return
	}
	on := &l.streams.all[c.id]
	on.moving, on.leaving = true, false
	l.push(c) // the answer to its close
	l.shut(c, false)
	if l.max && on.n == 0 {
		on.moving = false // the next message opens it
		return
	}
	if now < on.begun+closeGrace { // a server that ends each stream at once
		l.later(c, now)
		return
	}
	l.reopen(c, now)
}

// broken records the loss of a stream with its messages, and opens it again: at once, or after
// closeGrace if it was requested only just now.
func (l *loop) broken(c *conn, kind failure, now int64, why error) {
	s := l.streams
	on := &s.all[c.id]
	unopened := c.state != idle && c.state != busy
	switch {
	case c.state == held: // a message that waited there timed out
		l.resting.remove(l.conns, c.id)
	case c.state != shut:
		if l.waits(c) {
			l.waiting.remove(l.conns, c.id)
		}
		l.shut(c, true)
	}
	on.moving, on.leaving, on.why = false, false, fmt.Errorf("the stream was not open: %s", reasonOf(why))
	if s.before {
		s.refused = why
		return
	}
	status, waited := 0, on.n > 0
	if refused := (&refusedError{}); errors.As(why, &refused) {
		status = refused.status
	}
	l.why.add(kind, why)
	for on.n > 0 {
		l.rec.fail(&s.pop(c.id).req, kind, now, status)
		if kind == failTimeout && on.n > 0 { // those behind it had more time left
			kind = failStream
			l.why.add(kind, on.why)
		}
	}
	switch {
	case unopened, !l.max && now < on.begun+closeGrace:
		l.later(c, now)
	case !l.max:
		l.reopen(c, now)
	case waited: // otherwise it is free already
		l.release(c, now)
	}
}

// retry opens a stream again after closeGrace. At rate max the next message opens one that has
// no message.
func (l *loop) retry(c *conn, now int64) {
	l.resting.remove(l.conns, c.id)
	c.state = shut
	if l.max && l.streams.all[c.id].n == 0 {
		l.release(c, now)
		return
	}
	l.reopen(c, now)
}
