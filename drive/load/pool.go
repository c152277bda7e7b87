package load

import (
	"context"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/study/protocol"
)

// caller makes requests over one connection, or one stream of a shared connection, with
// a library. It blocks, so each slot has a goroutine.
type caller interface {
	// connect opens the connection if it is not open. The error carries its kind of
	// failure if known.
	connect(ctx context.Context) error
	// call makes request number n, which fails once ctx ends. It opens a closed
	// connection.
	call(ctx context.Context, n int64) outcome
	// close closes the connection; a call in flight fails.
	close()
}

// outcome is how a call ended.
type outcome struct {
	failed      bool
	kind        failure
	why         error // of a failure
	status      int   // HTTP status or gRPC code of a complete answer, else 0
	bytesSent   int64 // payload, for protocols framed by a library
	bytesRead   int64
	connections int64   // begun for the call
	held        *pinged // has frames to write once the call's end is known; may be nil
}

func (o *outcome) fail(kind failure, why error) { o.failed, o.kind, o.why = true, kind, why }

// slot makes one request at a time.
type slot struct {
	id     int32
	caller caller
	jobs   chan int64   // numbers of the requests to make
	ctx    *callContext // nil before the first call and after one that took too long
	freeAt int64
	req    request
	busy   bool
}

// callContext is the context of a slot's calls, one after the other, until one takes too long.
// A new context for each would cost a tenth of a call.
type callContext struct {
	context.Context
	deadline time.Time   // of the current call
	timer    *time.Timer // ends it
}

// Deadline implements [context.Context].
func (c *callContext) Deadline() (time.Time, bool) { return c.deadline, true }

// Err implements [context.Context]. A library's goroutine may call it after the call, so it does not
// read the deadline, which changes.
func (c *callContext) Err() error {
	if context.Cause(c.Context) == context.DeadlineExceeded {
		return context.DeadlineExceeded
	}
	return c.Context.Err()
}

// call makes request number n, which fails at the deadline or once ctx ends.
func (s *slot) call(ctx context.Context, deadline time.Time, n int64) outcome {
	if left := time.Until(deadline); s.ctx != nil {
		s.ctx.deadline = deadline
		s.ctx.timer.Reset(left)
	} else {
		ctx, cancel := context.WithCancelCause(ctx)
		s.ctx = &callContext{ctx, deadline, time.AfterFunc(left, func() { cancel(context.DeadlineExceeded) })}
	}
	out := s.caller.call(s.ctx, n)
	if !s.ctx.timer.Stop() {
		s.ctx = nil
	}
	return out
}

// pool sends a schedule through libraries that block. One goroutine paces: it waits with
// epoll, because Go's own timers are coarser, and hands due requests to the goroutines
// of free slots. One lock guards all accounting.
type pool struct {
	poll     *poller
	deadline *deadline
	edges    *edges
	max      bool
	keep     bool
	timeout  time.Duration
	drain    int64
	epoch    time.Time
	cursor   cursor          // of the pacing goroutine
	ctx      context.Context // of every call; cancelled at the end
	cancel   context.CancelFunc

	callers []caller // one for each connection

	mu      sync.Mutex
	rec     recorder
	why     *reasons
	slots   []slot
	free    fifo
	starved bool // the pacing goroutine waits for a free slot
	over    bool // completions are no longer recorded
	workers sync.WaitGroup
}

// defaultStreams is the default number of requests that a multiplexed connection carries
// concurrently on a schedule.
const defaultStreams = 100

// streams returns the number of concurrent requests per connection.
func (s *Spec) streams(p protocol.Protocol) int {
	switch {
	case !p.Multiplexed, !s.KeepAlive:
		return 1
	case s.StreamsPerConnection > 0:
		return s.StreamsPerConnection
	case s.Rate.IsMax():
		return 1
	}
	return defaultStreams
}

func newPool(parts setup) (*pool, error) {
	spec, col := parts.spec, parts.collector
	callers, err := newCallers(spec, parts.target, parts.addr)
	if err != nil {
		return nil, err
	}
	poll, err := newPoller(4)
	if err != nil {
		return nil, err
	}
	streams := spec.streams(parts.target.protocol)
	n := spec.Connections * streams
	p := &pool{
		poll: poll, deadline: parts.deadline, edges: parts.edges, max: spec.Rate.IsMax(), keep: spec.KeepAlive,
		timeout: seconds(spec.TimeoutS), drain: int64(seconds(spec.DrainS)),
		rec: col.recorder(0), why: &col.reasons[0],
		callers: callers, slots: make([]slot, n), free: newFIFO(n),
	}
	p.rec.order, p.rec.deadline = newOrder(spec, 1), parts.deadline
	p.ctx, p.cancel = context.WithCancel(context.Background())
	if s := spec.schedule(); s != nil {
		p.cursor = newCursor(s)
	}
	for i := range p.slots {
		// Successive slots use different connections.
		p.slots[i] = slot{id: int32(i), caller: callers[i%len(callers)], jobs: make(chan int64, 1)}
		p.free.push(int32(i))
	}
	return p, nil
}

// connect implements engine.
func (p *pool) connect(ctx context.Context) (int, error) {
	if !p.keep {
		return 0, nil
	}
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	failed := make([]error, len(p.callers))
	var group errgroup.Group
	group.SetLimit(32)
	for i, c := range p.callers {
		group.Go(func() error {
			failed[i] = c.connect(ctx)
			return failed[i]
		})
	}
	err := group.Wait() // the first one
	open := 0
	for _, err := range failed {
		if err == nil {
			open++
		}
	}
	if open == 0 {
		p.close()
		return 0, errs.WithHint(err, "nothing was sent: no connection could be opened")
	}
	return open, nil
}

func (p *pool) close() {
	p.cancel()
	for _, c := range p.callers {
		c.close()
	}
	p.poll.close()
}

// wake implements engine.
func (p *pool) wake() { p.poll.wake() }

func (p *pool) now() int64 { return int64(time.Since(p.epoch)) }

// begin implements engine.
func (p *pool) begin(epoch time.Time) { p.epoch = epoch }

// run implements engine.
func (p *pool) run() {
	for i := range p.slots {
		p.workers.Go(func() { p.serve(&p.slots[i]) })
	}
	for _, c := range p.callers {
		if c, ok := c.(*http2Caller); ok && p.keep {
			p.workers.Go(func() { c.watch(p.ctx) })
		}
	}
	p.pace()
	// Nothing is recorded after this: end requests in flight.
	for i := range p.slots {
		close(p.slots[i].jobs)
	}
	p.close()
	p.workers.Wait()
}

// serve makes the requests of one slot.
func (p *pool) serve(s *slot) {
	for n := range s.jobs {
		for p.one(s, n) {
			n = s.req.n
		}
	}
}

// one makes request number n. It reports whether the slot already has another one, as at
// rate max.
func (p *pool) one(s *slot, n int64) (again bool) {
	sent := p.now()
	p.mu.Lock()
	if p.over {
		p.mu.Unlock()
		return false
	}
	p.rec.sent(&s.req, s.freeAt, sent)
	p.mu.Unlock()

	out := s.call(p.ctx, p.epoch.Add(time.Duration(sent)+p.timeout), n)

	done := p.now()
	if out.held != nil {
		out.held.release() // a timer would cost more than the write
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return false
	}
	t := s.req.tally
	t.BytesSent += out.bytesSent
	t.BytesRead += out.bytesRead
	t.Connects += out.connections
	if out.failed {
		p.rec.fail(&s.req, out.kind, done, out.status)
		p.why.add(out.kind, out.why)
	} else {
		p.rec.complete(&s.req, done, out.status)
	}
	s.freeAt = done
	if p.max && done < p.deadline.end.Load() && !(out.failed && out.kind == failConnect) {
		p.rec.admit(&s.req, done)
		return true
	}
	s.busy = false
	p.free.push(s.id)
	if p.starved || done >= p.deadline.end.Load() {
		p.starved = false
		p.poll.wake()
	}
	return false
}

// pace hands out due requests until the run is over.
func (p *pool) pace() {
	nextEdge := int64(0)
	for {
		now, end := p.now(), p.deadline.end.Load()
		if now >= nextEdge {
			p.edges.sample(now)
			nextEdge = (now/p.rec.interval + 1) * p.rec.interval
		}
		wake := min(end, nextEdge)
		if now >= end {
			wake = end + p.drain
		}
		p.mu.Lock()
		sent := p.dispatch(now, end)
		backlog := !p.max && p.cursor.head.Offset < end
		idle := !backlog && p.rec.inFlight == 0
		p.starved = p.free.n == 0
		if backlog && p.free.n > 0 {
			wake = min(wake, p.cursor.head.Offset)
		}
		if p.max && p.free.n > 0 && now < end {
			wake = min(wake, now+closeGrace) // it could not connect
		}
		mark := min(now, end)
		if !p.max {
			mark = min(mark, p.cursor.head.Offset)
		}
		p.rec.sealUpTo(mark)
		if (now >= end || end == 0) && (idle || p.deadline.cancelled.Load() || now >= end+p.drain) { // 0: it ended before it began
			p.finish(now, end)
			p.mu.Unlock()
			return
		}
		p.mu.Unlock()
		if sent > 0 {
			// Run them on this thread: waking another one takes longer than
			// the request.
			runtime.Gosched()
			continue
		}
		precise() // this goroutine no longer has its own thread
		p.poll.waitFriendly(wake - p.now())
	}
}

// dispatch hands out due requests and returns their number. The caller holds the lock.
func (p *pool) dispatch(now, end int64) (sent int) {
	for n := p.free.n; n > 0; n-- {
		head := p.cursor.head
		if p.max {
			head.Offset = max(now, 0)
		}
		if head.Offset > now || head.Offset >= end {
			break
		}
		sent++
		s := &p.slots[p.free.pop()]
		p.rec.admit(&s.req, head.Offset)
		s.req.rate = head.RateRPS
		s.busy = true
		s.jobs <- s.req.n // has room: the slot was free
		if !p.max {
			p.cursor.advance()
		}
	}
	return sent
}

// finish accounts for the remaining requests. The caller holds the lock.
func (p *pool) finish(now, end int64) {
	p.over = true
	for i := range p.slots {
		if s := &p.slots[i]; s.busy {
			p.rec.abandon(&s.req)
		}
	}
	if !p.max {
		for p.cursor.head.Offset < end {
			p.rec.missed(p.cursor.head.Offset)
			p.cursor.advance()
		}
	}
	p.edges.finish(now)
	p.rec.finish(end)
}
