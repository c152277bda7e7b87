package load

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/record"
	"pgregory.net/rapid"

	"github.com/meshtrial/meshtrial/testing/must"
)

// TestSpare drives the connections of a loop with a random history: each is in one
// place at a time, permanent ones come first, and additional ones are used last in,
// first out, and closed when they are idle for too long.
func TestSpare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base, all := rapid.IntRange(1, 5).Draw(t, "base"), 0
		all = base + rapid.IntRange(0, 6).Draw(t, "more")
		l := &loop{conns: make([]conn, all), free: newFIFO(base), spare: spareFrom(base, all), waiting: newList()}
		for i := range l.conns {
			l.conns[i].id, l.conns[i].fd = int32(i), -1
			if i < base {
				l.conns[i].state = idle
				l.free.push(int32(i))
			}
		}
		var busyOnes []int32 // connections taken
		var open []int32     // open and free additional ones, by when they became free
		now := int64(0)
		for range rapid.IntRange(0, 120).Draw(t, "steps") {
			now += rapid.Int64Range(0, spareIdle/2).Draw(t, "time")
			l.expire(now)
			open = slices.DeleteFunc(open, func(id int32) bool { return now >= l.conns[id].freeAt+spareIdle })
			if l.available() != all-len(busyOnes) {
				t.Fatalf("%d available, %d of %d are taken", l.available(), len(busyOnes), all)
			}
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0, 1: // a request
				if l.available() == 0 {
					continue
				}
				kept := l.free.n > 0
				c := l.take()
				if slices.Contains(busyOnes, c.id) || kept != (int(c.id) < base) {
					t.Fatalf("took %d; %v are taken", c.id, busyOnes)
				}
				if n := len(open); !kept && n > 0 {
					if c.id != open[n-1] {
						t.Fatalf("took %d, not the last used of %v", c.id, open)
					}
					open = open[:n-1]
				}
				c.state = busy
				busyOnes = append(busyOnes, c.id)
			case 2, 3: // its end, with the connection kept or not
				if len(busyOnes) == 0 {
					continue
				}
				i := rapid.IntRange(0, len(busyOnes)-1).Draw(t, "which")
				c := &l.conns[busyOnes[i]]
				busyOnes = slices.Delete(busyOnes, i, i+1)
				c.state = idle
				if rapid.Bool().Draw(t, "lost") {
					c.state = shut
				} else if int(c.id) >= base {
					open = append(open, c.id)
				}
				l.release(c, now)
			case 4: // the peer closes an idle one
				if len(open) > 0 {
					i := rapid.IntRange(0, len(open)-1).Draw(t, "closed")
					l.leave(&l.conns[open[i]], true)
					open = slices.Delete(open, i, i+1)
				}
			}
			for i := base; i < all; i++ {
				if free := l.conns[i].state == idle; free != slices.Contains(open, int32(i)) {
					t.Fatalf("connection %d is open and free: %v; those are %v", i, free, open)
				}
			}
		}
	})
}

// late returns the 99th percentile of sent - intended, according to the log.
func late(r *Result) time.Duration {
	var lags []int64
	for req := range r.Requests.All() {
		if req.SentNS != record.Never {
			lags = append(lags, req.SentNS-req.IntendedNS)
		}
	}
	slices.Sort(lags)
	if len(lags) == 0 {
		return 0
	}
	return time.Duration(lags[len(lags)*99/100])
}

// hanging is a server that counts requests and never answers.
func hanging(t *testing.T, seen *atomic.Int64) string {
	return tcpServer(t, func(c net.Conn) {
		r := bufio.NewReader(c)
		for {
			if _, err := http.ReadRequest(r); err != nil {
				return
			}
			seen.Add(1)
		}
	})
}

// TestAllConnectionsHang: with a bounded pool, requests to a server that never answers
// wait for a connection and count from when they were due; a pool that may grow sends
// each when it is due.
func TestAllConnectionsHang(t *testing.T) {
	var seen atomic.Int64
	addr := hanging(t, &seen)
	quick := quick("http://" + addr + "/")
	quick.Arrival, quick.DurationS = Uniform, 0.5

	t.Run("four, for ever", func(t *testing.T) {
		spec := quick
		spec.TimeoutS, spec.DurationS, spec.DrainS = 0.2, 60, 0.05
		running := begin(t, spec)
		reach(t, running, func(p Progress) bool { return p.Sent > 8 }) // the third request on one connection
		running.Stop()
		r := ended(t, running)
		w := r.Total()
		// Four connections give up four requests each 200 ms.
		most := 4 * (running.Progress().AtNS/200e6 + 1)
		if w.Failed[FailTimeout] > most || w.Failed[FailTimeout] < 5 || w.Unfinished != w.Scheduled-w.Failed[FailTimeout] || late(r) < 300*time.Millisecond || w.MaxInFlight > 4 {
			t.Errorf("%+v, at most %d can be given up; 1%% sent over %v late", w.Account, most, late(r))
		}
	})

	t.Run("as many as are needed", func(t *testing.T) {
		seen.Store(0)
		spec := quick
		spec.MaxConnections = 200 // the schedule has as many requests
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		running, err := Start(ctx, spec, nil)
		must.OK(t, err)
		reach(t, running, func(p Progress) bool { return p.Sent == 200 && seen.Load() == 200 })
		cancel()
		r := ended(t, running)
		if w := r.Total(); w.Scheduled != 200 || w.Unfinished != 200 || w.MaxInFlight != 200 || w.Wait.Max() > int64(time.Millisecond) {
			t.Errorf("%+v, %d in flight, waited up to %v for a connection", w.Account, w.MaxInFlight, time.Duration(w.Wait.Max()))
		}
	})

	t.Run("each given up", func(t *testing.T) {
		spec := quick
		spec.MaxConnections, spec.TimeoutS = 200, 0.2
		r := mustRun(t, spec)
		if w := r.Total(); w.Failed[FailTimeout] != w.Scheduled {
			t.Errorf("%+v", w.Account)
		}
		for req := range r.Requests.All() {
			if took := req.DoneNS - req.SentNS; took < 200e6 || took > 20e9 {
				t.Errorf("request %d was given up after %v", req.N, time.Duration(took))
			}
		}
	})
}

// unspoilt repeats a run that stalls of the machine may spoil, until it is good or has
// failed five times: a real error fails every time.
func unspoilt(t *testing.T, run func() *Result, good func(*Result) bool) *Result {
	t.Helper()
	for try := 1; ; try++ {
		r := run()
		if good(r) || try == 5 {
			return r
		}
		t.Logf("again: %+v, 1%% sent over %v late", r.Total().Account, late(r))
	}
}

// TestScheduleUnderFailure checks that at 1000 rps neither a server that is gone nor
// one that resets everything delays the schedule, with permanent connections and with
// new ones.
func TestScheduleUnderFailure(t *testing.T) {
	for _, keep := range []bool{true, false} {
		spec := quick("")
		spec.Rate, spec.Arrival, spec.KeepAlive, spec.Connections = 1000, Uniform, keep, 8
		check := func(t *testing.T, kind string, run func() *Result) {
			t.Helper()
			r := unspoilt(t, run, func(r *Result) bool { return late(r) <= time.Second })
			if w := r.Total(); w.Failed[kind] < w.Scheduled-2*int64(spec.Connections) || w.Unfinished != 0 || late(r) > time.Second {
				t.Errorf("%+v, 1%% sent over %v late", w.Account, late(r))
			}
		}
		t.Run(fmt.Sprintf("reset, keep-alive %v", keep), func(t *testing.T) {
			addr := tcpServer(t, func(c net.Conn) {
				_ = c.(*net.TCPConn).SetLinger(0)
				_, _ = c.Read(make([]byte, 1))
			})
			spec := spec
			spec.URL = "http://" + addr + "/"
			check(t, FailReset, func() *Result { return mustRun(t, spec) })
		})
		t.Run(fmt.Sprintf("refused, keep-alive %v", keep), func(t *testing.T) {
			first := 1 // connections before the first request: a probe, or all
			if keep {
				first = spec.Connections
			}
			check(t, FailConnect, func() *Result {
				l, err := net.Listen("tcp", "127.0.0.1:0")
				must.OK(t, err)
				stopped := make(chan struct{})
				go func() { // never answers, and is gone before any connection ends
					defer close(stopped)
					for range first {
						c, err := l.Accept()
						if err != nil {
							break
						}
						defer c.Close()
					}
					l.Close()
				}()
				spec := spec
				spec.URL = "http://" + l.Addr().String() + "/"
				defer func() { l.Close(); <-stopped }()
				return mustRun(t, spec)
			})
		})
	}
}

// TestClosedWhileIdle checks that a server that silently closes idle connections costs
// no request of a run with a log, only new connections.
func TestClosedWhileIdle(t *testing.T) {
	const waits, longAfter = 2 * time.Millisecond, 5 * time.Millisecond
	var late atomic.Int64 // closes so late that it may have met a request
	addr := tcpServer(t, func(c net.Conn) {
		r := bufio.NewReader(c)
		for due := (time.Time{}); ; _ = c.SetReadDeadline(due) {
			if _, err := http.ReadRequest(r); err != nil {
				if !due.IsZero() && time.Since(due) > longAfter {
					late.Add(1)
				}
				return
			}
			if _, err := io.WriteString(c, okAnswer); err != nil {
				return
			}
			due = time.Now().Add(waits)
		}
	})
	// A connection is idle for 16 ms. Its loop sleeps meanwhile, as it does when the
	// next request is due within 20 ms, and does not see the close. Without a check of
	// the connection every other request would fail.
	spec := quick("http://" + addr + "/")
	spec.Arrival, spec.Connections, spec.Rate, spec.DurationS = Uniform, 1, 60, 2.5
	run := func() *Result {
		late.Store(0)
		return mustRun(t, spec)
	}
	// Requests that come in clumps are due to the machine.
	good := func(r *Result) bool {
		w := r.Total()
		return w.FailedTotal() <= w.Scheduled/50+late.Load() && w.Connects >= w.Scheduled/2
	}
	if r := unspoilt(t, run, good); !good(r) {
		t.Errorf("%+v, %d connections made, %d closed late", r.Total().Account, r.Total().Connects, late.Load())
	}
}
