package load

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// loops are the event loops of a run: plain HTTP/1.1 and TCP echo.
type loops struct {
	loops   []*loop
	timeout time.Duration
	epoch   time.Time
	last    *change // the last one proposed
}

func newLoops(parts setup) (*loops, error) {
	spec, col := parts.spec, parts.collector
	var w *wire
	if !parts.target.protocol.Streams {
		w = dialects[parts.target.protocol.Name].wire(spec, parts.target)
	}
	ls := &loops{timeout: seconds(spec.TimeoutS), last: &change{}}
	first := 0 // number of a loop's first stream
	for i := range spec.Threads {
		base := part(spec.Connections, spec.Threads, i)
		n := max(base, part(spec.MaxConnections, spec.Threads, i))
		p, err := newPoller(min(max(n, 16), 256))
		if err != nil {
			ls.close()
			return nil, fmt.Errorf("load: epoll: %w", err)
		}
		l := &loop{
			wire: w, endpoint: newEndpoint(parts.addr), poll: p, sockets: p,
			conns: make([]conn, n), free: newFIFO(base), spare: spareFrom(base, n), waiting: newList(), resting: newList(),
			buf: make([]byte, readBuffer), deadline: parts.deadline, change: ls.last,
			careful: spec.RequestLog && !spec.Rate.IsMax(), keepAlive: spec.KeepAlive, max: spec.Rate.IsMax(),
			timeout: int64(seconds(spec.TimeoutS)), drain: int64(seconds(spec.DrainS)),
			rec: col.recorder(i), why: &col.reasons[i],
		}
		if w == nil {
			l.streams, l.payload = newStreams(spec, parts.target, n, first), len(spec.payload())
			first += n
		}
		l.rec.order, l.rec.deadline = newOrder(spec, spec.Threads), parts.deadline
		if i == 0 {
			l.edges = parts.edges
		}
		if s := spec.schedule(); s != nil {
			if spec.Threads > 1 {
				s = &every{schedule: s, n: spec.Threads, skip: i}
			}
			l.cursor = newCursor(s)
			if err := l.pace(); err != nil {
				p.close()
				ls.close()
				return nil, fmt.Errorf("load: %w", err)
			}
		}
		for id := range l.conns {
			l.conns[id].id = int32(id)
			if w != nil {
				l.conns[id].answer = w.newAnswer(&l.cache)
			}
			if id < base {
				l.free.push(int32(id))
			}
		}
		ls.loops = append(ls.loops, l)
	}
	return ls, nil
}

// part returns the i-th of n even parts of number.
func part(number, n, i int) int {
	p := number / n
	if i < number%n {
		p++
	}
	return p
}

// pace adds what a schedule needs: timers, and a separate poller for the connections.
func (l *loop) pace() (err error) {
	if l.timers, err = newTimers(l.poll); err != nil {
		return fmt.Errorf("timerfd: %w", err)
	}
	if l.sockets, err = newPoller(len(l.poll.events)); err != nil {
		l.timers.close()
		return fmt.Errorf("epoll: %w", err)
	}
	return nil
}

// close implements engine.
func (ls *loops) close() {
	for _, l := range ls.loops {
		for i := range l.conns {
			if c := &l.conns[i]; c.state != shut {
				l.shut(c, true)
			}
		}
		l.close()
	}
}

// connect implements engine. With keep-alive every connection is opened before the
// first request; failed ones are tried again when a request needs them.
func (ls *loops) connect(ctx context.Context) (int, error) {
	if !ls.loops[0].keepAlive {
		return 0, nil
	}
	open := 0
	var last error
	for _, l := range ls.loops {
		n, err := l.connectAll(ctx, ls.timeout)
		open += n
		last = cmp.Or(err, last)
		if l.streams != nil && l.streams.refused != nil {
			last = l.streams.refused
		}
	}
	if err := ctx.Err(); err != nil {
		ls.close()
		return 0, err
	}
	if open == 0 {
		ls.close()
		return 0, errs.WithHint(fmt.Errorf("load: no connection could be opened: %w", last),
			"nothing was sent; check that the server runs, that the address is right, and that it accepts that many connections")
	}
	return open, nil
}

// begin implements engine.
func (ls *loops) begin(epoch time.Time) {
	ls.epoch = epoch
	for _, l := range ls.loops {
		l.epoch = epoch
	}
}

// run implements engine.
func (ls *loops) run() {
	var all sync.WaitGroup
	for _, l := range ls.loops {
		all.Go(func() {
			// Never unlocked: the thread ends with the goroutine, and so does its
			// timer slack.
			runtime.LockOSThread()
			if l.timers != nil {
				l.timers.begin(ls.epoch)
			}
			l.run()
		})
	}
	all.Wait()
}

// wake implements engine.
func (ls *loops) wake() {
	for _, l := range ls.loops {
		l.poll.wake()
	}
}
