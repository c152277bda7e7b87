package load

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/meshtrial/meshtrial/drive/load/http1"
	"golang.org/x/sys/unix"
)

// deadline is the end of a run's schedule, shared by all of its threads.
type deadline struct {
	end       atomic.Int64 // ns since the start; only ever lowered
	cancelled atomic.Bool  // do not drain
}

// lower moves the end to ns if it is later.
func (d *deadline) lower(ns int64) {
	for {
		old := d.end.Load()
		if ns >= old || d.end.CompareAndSwap(old, ns) {
			return
		}
	}
}

// readBuffer is the maximum number of bytes per read of a socket.
const readBuffer = 64 << 10

// loop is one event loop: a thread with its own connections and its own part of the
// schedule, which does one thing at a time:
//
//	wait until the next request is due -> send due requests on free connections,
//	longest free first -> read what has arrived, complete responses, free their
//	connections
//
// The kernel timestamps responses, so a response need not wake the loop. While most
// connections are free, the loop sleeps from one request to the next and reads the
// responses then, which saves every other wake-up. Otherwise responses wake it too. At
// rate max there is no schedule, and only responses wake it.
type loop struct {
	wire     *wire    // nil with streams
	streams  *streams // nil: connections carry requests
	payload  int      // bytes of a message
	endpoint endpoint
	poll     *poller // its events end a wait
	sockets  *poller // the connections; the same as poll at rate max
	watching bool    // sockets end waits of poll
	conns    []conn
	free     fifo // connections without a request, whether open or not
	spare    spare
	waiting  list // requests in flight, ordered by time of sending
	resting  list // connections waiting out closeGrace, ordered by its start
	cursor   cursor
	timers   *timers // nil at rate max
	stamped  stamped
	rec      recorder
	why      *reasons
	cache    http1.Cache
	buf      []byte

	epoch     time.Time
	deadline  *deadline
	change    *change // the last one applied
	keepAlive bool
	careful   bool  // check whether a connection is closed before sending a request on it
	max       bool  // no schedule: send whenever a connection is free
	timeout   int64 // ns
	drain     int64
	nextEdge  int64  // of an interval
	edges     *edges // samples CPU there; nil except in the first loop
	// attention counts connections whose next event should wake the loop: those that
	// are connecting, or have part of a request or response outstanding.
	attention int
	large     bool // a response was too large to leave in the kernel
}

func (l *loop) now() int64 { return int64(time.Since(l.epoch)) }

// run sends the schedule. It returns when the schedule is over and drained,
// or cancelled.
func (l *loop) run() {
	precise()
	l.stamped.calibrate(l.now)
	now := l.now()
	if l.streams != nil {
		l.openAll(now)
	}
	for {
		end := l.deadline.end.Load()
		now = l.dispatch(now, end)
		if l.over(now, end) {
			break
		}
		l.bookkeep(now, end)
		if l.max {
			now = l.handle(l.poll.wait(l.wake(now, end)-now), l.now(), end)
			continue
		}
		now = l.pause(end)
		now = l.dispatch(now, end)
		now = l.handle(l.sockets.wait(0), now, end)
	}
	l.finish(l.now())
}

// handle handles the events of connections. Closes of idle ones come first, so that no
// other event sends a request on them.
func (l *loop) handle(events []unix.EpollEvent, now, end int64) int64 {
	for i := range events[:max(0, len(events)-1)] {
		if ev := &events[i+1]; ev.Fd >= 0 {
			if c := &l.conns[ev.Fd]; c.state == idle {
				now = l.ready(c, ev.Events, ev.Pad, now)
			}
		}
	}
	for i := range events {
		ev := &events[i]
		if ev.Fd < 0 {
			continue // it only ends the wait
		}
		now = l.ready(&l.conns[ev.Fd], ev.Events, ev.Pad, now)
		if l.cursor.head.Offset <= now {
			now = l.dispatch(now, end)
		}
	}
	return now
}

// Limits for leaving responses in the kernel until the next request is due.
const (
	lazyGap   = 20_000_000 // ns until then
	lazyBytes = 16 << 10   // of a response; more could fill the socket's buffer
)

// pause waits until a request is due on a free connection or something else is to do,
// and returns the time.
func (l *loop) pause(end int64) int64 {
	now := l.now()
	l.timers.arm(&l.cursor, now)
	due := l.cursor.head.Offset
	sendable := l.available() > 0 && due < end
	if sendable && due <= now {
		return now
	}
	lazy := sendable && 2*l.idle() >= l.spare.base && due-now < lazyGap && l.attention == 0 && !l.large && l.keepAlive
	if lazy == l.watching {
		l.watching = !lazy
		l.poll.watch(l.sockets, l.watching)
	}
	if !sendable || due-now > l.timers.lead {
		events := l.poll.wait(l.wake(now, end) - now)
		now = l.now()
		if sendable {
			for i := range events {
				if events[i].Fd == timerID {
					l.timers.woken(now, due)
					break
				}
			}
		}
	}
	if sendable && due-now < l.timers.lead {
		for now < due {
			now = l.now()
		}
	}
	return now
}

// idle returns the number of permanent connections on which nothing waits for an answer.
func (l *loop) idle() int {
	if l.streams != nil {
		return l.streams.idle
	}
	return l.free.n
}

// over reports whether the loop is done.
func (l *loop) over(now, end int64) bool {
	if now < end && end > 0 { // 0: it ended before it began
		return false
	}
	if l.deadline.cancelled.Load() || now >= end+l.drain {
		return true
	}
	backlog := !l.max && l.cursor.head.Offset < end
	return !backlog && l.rec.inFlight == 0
}

// wake returns when the loop must act next in the absence of connection events and due
// requests.
func (l *loop) wake(now, end int64) int64 {
	at := end
	if now >= end {
		at = end + l.drain
	}
	at = min(at, l.nextEdge)
	if first := l.waiting.first; first != none {
		at = min(at, l.conns[first].req.sent+l.timeout)
	}
	if l.streams != nil && l.streams.messages.first != none {
		m := &l.streams.messages
		at = min(at, m.list[m.first].req.sent+l.timeout)
	}
	if first := l.resting.first; first != none {
		at = min(at, l.conns[first].freeAt+closeGrace)
	}
	if first := l.spare.idle.first; first != none {
		at = min(at, l.conns[first].freeAt+spareIdle)
	}
	return at
}

// dispatch sends due requests while connections are free, at most one per connection,
// and returns the current time.
func (l *loop) dispatch(now, end int64) int64 {
	for n := l.available(); n > 0 && l.available() > 0; n-- {
		l.changes(now)
		head := l.cursor.head
		if l.max {
			head.Offset = max(now, 0)
		}
		if head.Offset > now || head.Offset >= end {
			break
		}
		c := l.take()
		if l.max {
			l.send(c, head, c.freeAt, now)
			now = l.now()
			continue
		}
		l.cursor.advance()
		now = l.now()
		l.send(c, head, c.freeAt, now)
	}
	return now
}

// bookkeep times out requests, samples CPU at the edges of intervals, and passes on
// finished intervals.
func (l *loop) bookkeep(now, end int64) {
	for l.waiting.first != none {
		c := &l.conns[l.waiting.first]
		if now < c.req.sent+l.timeout {
			break
		}
		if l.streams != nil {
			l.broken(c, failTimeout, now, errTimeout)
			continue
		}
		l.failed(c, failTimeout, now, errTimeout)
	}
	for l.streams != nil && l.streams.messages.first != none {
		m := &l.streams.messages.list[l.streams.messages.first]
		if now < m.req.sent+l.timeout {
			break
		}
		l.broken(&l.conns[m.conn], failTimeout, now, errTimeout)
	}
	for l.resting.first != none {
		c := &l.conns[l.resting.first]
		if now < c.freeAt+closeGrace {
			break
		}
		if l.streams != nil {
			l.retry(c, now)
			continue
		}
		l.rested(c, now, true)
	}
	l.expire(now)
	l.changes(now)
	if now >= l.nextEdge {
		if l.edges != nil {
			l.edges.sample(now)
		}
		l.stamped.calibrate(l.now)
		l.nextEdge = (now/l.rec.interval + 1) * l.rec.interval
	}
	mark := min(now, end)
	if !l.max {
		mark = min(mark, l.cursor.head.Offset)
	}
	if l.rec.sealable(mark) {
		l.rec.sealUpTo(mark)
	}
}

// finish accounts for the remaining requests and closes every connection.
func (l *loop) finish(now int64) {
	end := l.deadline.end.Load()
	for i := range l.conns {
		c := &l.conns[i]
		if l.streams != nil {
			for l.streams.all[i].n > 0 {
				l.rec.abandon(&l.streams.pop(c.id).req)
			}
		} else if c.state == connecting || c.state == busy {
			l.rec.abandon(&c.req)
		}
		if c.state != shut && c.state != held {
			l.shut(c, true)
		}
	}
	l.changes(now)
	if !l.max {
		for l.cursor.head.Offset < end {
			l.rec.missed(l.cursor.head.Offset)
			l.cursor.advance()
		}
	}
	if l.edges != nil {
		l.edges.finish(now)
	}
	l.rec.finish(end)
	l.close()
}

// connectAll opens every connection before the schedule begins, a few at a time so
// that the listener's queue does not overflow. It returns the number of open
// connections and the last error.
func (l *loop) connectAll(ctx context.Context, limit time.Duration) (open int, last error) {
	const batch = 64
	until := time.Now().Add(limit)
	conns := l.conns[:l.spare.base]
	for from := 0; from < len(conns); from += batch {
		group := conns[from:min(from+batch, len(conns))]
		pending := 0
		for i := range group {
			if err := l.connect(&group[i]); err != nil {
				last = err
				continue
			}
			pending++
		}
		for over := false; pending > 0 && !over; {
			// Check before polling, so that what happened in time counts even if this
			// thread sees it late.
			over = !time.Now().Before(until) || ctx.Err() != nil
			for _, ev := range l.sockets.wait(int64(10 * time.Millisecond)) {
				if ev.Fd < 0 {
					continue
				}
				c := &l.conns[ev.Fd]
				if c.state != connecting && c.state != opening || c.generation != ev.Pad {
					continue
				}
				if l.streams != nil {
					// It may close before it is open.
					if l.streamReady(c, ev.Events, ev.Pad, 0); c.state == idle {
						pending--
						open++
					} else if c.state == shut {
						pending--
					}
					continue
				}
				pending--
				if errno := socketError(c.fd); errno != 0 {
					last = errno
					l.shut(c, false)
					continue
				}
				c.state, c.fresh = idle, false
				l.attention--
				open++
			}
		}
		for i := range group {
			if s := group[i].state; s == connecting || s == opening {
				last = unix.ETIMEDOUT
				l.shut(&group[i], false)
			}
		}
	}
	return open, last
}

// close frees the resources of the loop except connections.
func (l *loop) close() {
	if l.timers != nil {
		l.timers.close()
	}
	if l.sockets != l.poll {
		l.sockets.close()
	}
	l.poll.close()
}
