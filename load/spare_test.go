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

	"pgregory.net/rapid"
)

// TestSpare drives the connections of a loop with a random history: each is
// in one place at a time, kept ones come first, and additional ones are used
// last in first out, and closed when they rest too long.
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
		var busyOnes []int32 // what is taken
		var open []int32     // additional ones that are open and free, by when
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
			case 4: // the peer closes one that rests
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

// late returns the 99th percentile of sent - intended, by the log.
func late(r *Result) time.Duration {
	var lags []int64
	for req := range r.Requests.All() {
		if req.SentNS != Never {
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

// TestAllConnectionsHang: requests to a server that answers none wait for a
// connection with a bounded pool, and are counted from when they were due; a
// pool that may grow sends each when it is due.
func TestAllConnectionsHang(t *testing.T) {
	var seen atomic.Int64
	addr := hanging(t, &seen)
	spec := quick("http://" + addr + "/")
	spec.Arrival, spec.TimeoutS, spec.DrainS = Uniform, 0.2, 1.5

	r := mustRun(t, spec)
	w := r.Total()
	// Four connections give up four requests each 200 ms.
	if w.Failed[FailTimeout] > 4*10 || w.Unfinished != w.Scheduled-w.Failed[FailTimeout] || late(r) < 300*time.Millisecond {
		t.Errorf("four connections, for ever: %+v, 1%% sent over %v late", w.Account, late(r))
	}

	spec.MaxConnections, spec.DrainS = 200, 20
	seen.Store(0)
	r = mustRun(t, spec)
	w = r.Total()
	if w.Failed[FailTimeout] != w.Scheduled || seen.Load() < w.Scheduled/2 || late(r) > 250*time.Millisecond || w.MaxInFlight < 60 {
		t.Errorf("a pool that grows: %+v, 1%% sent over %v late, %d in flight; the server saw %d", w.Account, late(r), w.MaxInFlight, seen.Load())
	}
	for req := range r.Requests.All() {
		if took := req.DoneNS - req.SentNS; took < 200e6 || took > 2e9 {
			t.Errorf("request %d was given up after %v", req.N, time.Duration(took))
		}
	}
	if p99 := time.Duration(w.Wait.ValueAtPercentile(99)); p99 > 50*time.Millisecond {
		t.Errorf("1%% of the requests waited over %v for a connection", p99)
	}
}

// TestScheduleUnderFailure: at 1000 rps neither a server that is gone nor one
// that resets everything holds up the schedule, with kept connections and
// with new ones.
func TestScheduleUnderFailure(t *testing.T) {
	for _, keep := range []bool{true, false} {
		spec := quick("")
		spec.Rate, spec.Arrival, spec.KeepAlive, spec.Connections = 1000, Uniform, keep, 8
		check := func(t *testing.T, r *Result, kind string) {
			t.Helper()
			checkResult(t, r)
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
			check(t, mustRun(t, spec), FailReset)
		})
		t.Run(fmt.Sprintf("refused, keep-alive %v", keep), func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			stopped := make(chan struct{})
			go func() {
				defer close(stopped)
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					c.Close()
				}
			}()
			spec := spec
			spec.URL, spec.StartAtUnixNS = "http://"+l.Addr().String()+"/", time.Now().Add(500*time.Millisecond).UnixNano()
			running, err := Start(context.Background(), spec)
			l.Close()
			<-stopped
			if err != nil {
				t.Fatal(err)
			}
			r, err := running.Result(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			check(t, r, FailConnect)
		})
	}
}

// TestClosedWhileIdle: a server that closes idle connections without a word
// costs no request of a run that keeps a log, but connections made anew.
func TestClosedWhileIdle(t *testing.T) {
	addr := tcpServer(t, func(c net.Conn) {
		r := bufio.NewReader(c)
		for {
			if _, err := http.ReadRequest(r); err != nil {
				return
			}
			if _, err := io.WriteString(c, okAnswer); err != nil {
				return
			}
			_ = c.SetReadDeadline(time.Now().Add(5 * time.Millisecond))
		}
	})
	spec := quick("http://" + addr + "/")
	spec.Arrival = Uniform // each connection rests 10 ms
	w := mustRun(t, spec).Total()
	if w.FailedTotal() > w.Scheduled/50 || w.Connects < w.Scheduled/2 {
		t.Errorf("%+v, %d connections made", w.Account, w.Connects)
	}
}
