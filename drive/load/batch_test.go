package load

import (
	"net"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/meshtrial/meshtrial/testing/must"
)

// closedLoop returns an event loop with two connections. The server has closed
// both, and the loop has not noticed yet. Later connections are answered.
func closedLoop(t *testing.T) *loop {
	t.Helper()
	closes := make(chan struct{})
	var accepted atomic.Int64
	addr := tcpServer(t, func(c net.Conn) {
		if accepted.Add(1) > 2 {
			answering(func(int64) string { return okAnswer })(c)
			return
		}
		<-closes
	})
	spec := quick("http://" + addr + "/")
	spec.Connections, spec.Arrival, spec.RequestLog = 2, Uniform, false
	ls := loopsOf(t, &spec)
	t.Cleanup(ls.close)
	must.OK(t, must.Err(ls.connect(t.Context())))
	ls.begin(time.Now())
	close(closes)
	l := ls.loops[0]
	limit := time.After(time.Minute)
	for i := range l.conns {
		for !sysClosed(l.conns[i].fd) {
			select {
			case <-limit:
				t.Fatal("no close has come")
			case <-time.After(time.Millisecond):
			}
		}
	}
	return l
}

// TestCloseLaterInTheBatch checks that a request that is due between two events
// does not use a connection whose close is the second of them.
func TestCloseLaterInTheBatch(t *testing.T) {
	l := closedLoop(t)
	first, second := &l.conns[0], &l.conns[1]
	l.handle([]unix.EpollEvent{
		{Events: unix.EPOLLOUT, Fd: second.id, Pad: second.generation},
		{Events: unix.EPOLLIN | unix.EPOLLRDHUP, Fd: first.id, Pad: first.generation},
	}, l.now(), 1e9)
	if first.state != connecting {
		t.Errorf("the request that was due went on a closed connection: state %d", first.state)
	}
}

// TestUnread checks that a request sent on a connection that the server had
// closed is sent again on another one, because the server never read it.
func TestUnread(t *testing.T) {
	l := closedLoop(t)
	const one = 2_000_000 // ns, before the second request is due
	l.dispatch(l.now(), one)
	if first := &l.conns[0]; first.state != busy {
		t.Fatalf("no request is out: state %d", first.state)
	}
	for limit := time.Now().Add(time.Minute); l.rec.inFlight > 0 && time.Now().Before(limit); {
		l.handle(l.sockets.wait(int64(time.Millisecond)), l.now(), one)
	}
	if made := l.conns[0].req.tally.Connects; l.rec.done.completed.Load() != 1 || l.rec.done.failed.Load() != 0 || made != 1 {
		t.Errorf("%d completed, %d failed, %d connections made", l.rec.done.completed.Load(), l.rec.done.failed.Load(), made)
	}
}
