package load

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"sync"
	"time"

	"github.com/meshmark/meshmark/errs"
	"golang.org/x/sys/unix"
)

// loops are the event loops of a run: plain HTTP/1.1 and TCP echo.
type loops struct {
	loops   []*loop
	timeout time.Duration
}

func newLoops(spec *Spec, t target, addr *net.TCPAddr, d *deadline, e *edges, col *collector) (*loops, error) {
	w := newWire(spec, t)
	ls := &loops{timeout: seconds(spec.TimeoutS)}
	for i := range spec.Threads {
		n := spec.Connections / spec.Threads
		if i < spec.Connections%spec.Threads {
			n++
		}
		p, err := newPoller(min(max(n, 16), 256))
		if err != nil {
			ls.close()
			return nil, fmt.Errorf("load: epoll: %w", err)
		}
		l := &loop{
			wire: w, endpoint: newEndpoint(addr), poll: p, sockets: p,
			conns: make([]conn, n), free: newFIFO(n), waiting: newList(), resting: newList(),
			buf: make([]byte, readBuffer), deadline: d,
			keepAlive: spec.KeepAlive, max: spec.Rate == Max,
			timeout: int64(seconds(spec.TimeoutS)), drain: int64(seconds(spec.DrainS)),
			rec: recorder{interval: col.interval, closed: spec.Rate == Max, seal: col.seal, fresh: col.fresh},
		}
		if i == 0 {
			l.edges = e
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
			l.conns[id].answer = w.newAnswer(&l.cache)
			l.free.push(int32(id))
		}
		ls.loops = append(ls.loops, l)
	}
	return ls, nil
}

// pace adds what a schedule needs: timers, and a poller of its own for the
// connections.
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

// close undoes newLoops and connect when no run follows.
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

// connect implements engine. With keep-alive every connection is opened
// before the first request; those that fail are tried again when a request
// needs them.
func (ls *loops) connect(ctx context.Context) (int, error) {
	if !ls.loops[0].keepAlive {
		return 0, nil
	}
	open := 0
	var last unix.Errno
	for _, l := range ls.loops {
		n, errno := l.connectAll(ctx, ls.timeout)
		open += n
		if errno != 0 {
			last = errno
		}
	}
	if err := ctx.Err(); err != nil {
		ls.close()
		return 0, err
	}
	if open == 0 {
		ls.close()
		return 0, errs.WithHint(fmt.Errorf("load: none of the connections could be made: %w", last),
			"nothing was sent; is the server up, is the address right, and can it hold that many?")
	}
	return open, nil
}

// run implements engine.
func (ls *loops) run(epoch time.Time) {
	var all sync.WaitGroup
	for _, l := range ls.loops {
		l.epoch = epoch
		all.Go(func() {
			// Never unlocked: the thread ends with the goroutine, and its
			// timer slack with it.
			runtime.LockOSThread()
			if l.timers != nil {
				l.timers.begin(epoch)
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
