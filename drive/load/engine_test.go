package load

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/record/rate"
	"github.com/meshtrial/meshtrial/testing/loopback"

	"github.com/meshtrial/meshtrial/testing/must"
)

// quick returns a short run at a rate that any machine sustains. It waits for
// answers for as long as a machine may stall.
func quick(url string) Spec {
	s := DefaultSpec(url)
	s.Connections, s.Rate, s.DurationS, s.IntervalS = 4, 400, 0.3, 0.1
	s.RequestLog, s.DrainS, s.TimeoutS = true, 30, 30
	return s
}

// mustRun runs spec and checks the invariants of every run. At rate max nothing
// is due at a fixed time, so it stops the run after some requests.
func mustRun(t *testing.T, spec Spec) *Result {
	t.Helper()
	if spec.Rate.IsMax() {
		spec.DurationS = 60
	}
	running := begin(t, spec)
	if spec.Rate.IsMax() {
		reach(t, running, func(p Progress) bool { return p.Completed+p.Failed >= 200 })
		running.Stop()
	}
	return ended(t, running)
}

// begin starts a run.
func begin(t *testing.T, spec Spec) *Running {
	t.Helper()
	running, err := Start(context.Background(), spec, nil)
	must.OK(t, err)
	return running
}

// ended waits for a run's end and checks its invariants.
func ended(t *testing.T, running *Running) *Result {
	t.Helper()
	r, err := running.Result(context.Background())
	must.OK(t, err)
	checkResult(t, r)
	return r
}

// reach waits until a run's progress satisfies there.
func reach(t *testing.T, running *Running, there func(Progress) bool) {
	t.Helper()
	for !there(running.Progress()) {
		select {
		case <-running.Done():
			t.Fatalf("the run ended at %+v", running.Progress())
		case <-time.After(time.Millisecond):
		}
	}
}

func checkResult(t *testing.T, r *Result) {
	t.Helper()
	planned := map[int]int64{}
	var times []int64
	if s := r.Spec.schedule(); s != nil {
		for _, c := range r.Changes {
			s.Change(c.AtNS, c.RPS*r.Spec.portion())
		}
		times = walk(s)
		at, _ := slices.BinarySearch(times, r.EndNS)
		times = times[:at]
		for _, at := range times {
			planned[int(at/int64(seconds(r.Spec.IntervalS)))]++
		}
	}
	w := r.Total()
	if !w.Balanced() {
		t.Errorf("the account does not balance: %+v", w.Account)
	}
	if !r.Spec.Rate.IsMax() && !r.Interrupted && w.Scheduled != int64(len(times)) {
		t.Errorf("scheduled %d, the schedule has %d", w.Scheduled, len(times))
	}
	for i := range r.Intervals {
		iv := &r.Intervals[i]
		if iv.Index != i || !iv.Balanced() {
			t.Errorf("interval %d: %+v", i, iv.Account)
		}
		if !r.Spec.Rate.IsMax() && !r.Interrupted && iv.Scheduled != planned[i] {
			t.Errorf("interval %d: scheduled %d, the schedule has %d", i, iv.Scheduled, planned[i])
		}
		if count(iv.Intended) != iv.Completed || count(iv.Send) != iv.Completed {
			t.Errorf("interval %d: %d completed, but %d and %d latencies", i, iv.Completed, count(iv.Intended), count(iv.Send))
		}
	}
	if r.Spec.RequestLog {
		checkLog(t, r, times)
	}
}

func TestHTTP1(t *testing.T) {
	var seen atomic.Int64
	addr := tcpServer(t, answering(func(int64) string { seen.Add(1); return okAnswer }))
	for name, change := range map[string]func(*Spec){
		"poisson":      func(s *Spec) {},
		"uniform":      func(s *Spec) { s.Arrival = Uniform },
		"burst":        func(s *Spec) { s.Arrival = Burst },
		"max":          func(s *Spec) { s.Rate = rate.Max },
		"threads":      func(s *Spec) { s.Threads = 3 },
		"max, threads": func(s *Spec) { s.Rate = rate.Max; s.Threads = 2 },
		"payload":      func(s *Spec) { s.PayloadBytes = 300_000; s.Rate = 50 },
		"one":          func(s *Spec) { s.Connections = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			seen.Store(0)
			spec := quick("http://" + addr + "/")
			change(&spec)
			r := mustRun(t, spec)
			w := r.Total()
			if w.Completed == 0 || w.Completed != w.Scheduled || seen.Load() != w.Completed {
				t.Errorf("%+v, the server saw %d", w.Account, seen.Load())
			}
			if w.Connects != 0 || spec.Rate.IsMax() != (w.Schedule() == nil) {
				t.Errorf("%d connections made during the run, schedule %+v", w.Connects, w.Schedule())
			}
			if w.MaxInFlight < 1 || w.MaxInFlight > spec.Connections {
				t.Errorf("%d in flight on %d connections", w.MaxInFlight, spec.Connections)
			}
			if spec.Arrival == Burst && w.MaxInFlight != spec.Connections {
				t.Errorf("a burst had %d in flight, want %d", w.MaxInFlight, spec.Connections)
			}
		})
	}
}

// loopsOf returns the event loops of a run, not connected yet.
func loopsOf(t *testing.T, spec *Spec) *loops {
	t.Helper()
	target, err := spec.parseTarget()
	must.OK(t, err)
	to, err := net.ResolveTCPAddr("tcp", target.hostPort)
	must.OK(t, err)
	e := newEdges(1e8)
	ls, err := newLoops(setup{spec: spec, target: target, addr: to, deadline: &deadline{}, edges: e, collector: newCollector(1, 1e8, false, e, nil)})
	must.OK(t, err)
	return ls
}

// Connections that the kernel established in time count, even if the thread
// checks late: here no time is left at the first check.
func TestConnectedInTime(t *testing.T) {
	addr := okServer(t)
	spec := quick("http://" + addr + "/")
	for range 20 { // loopback's own thread may need time
		ls := loopsOf(t, &spec)
		open, _ := ls.loops[0].connectAll(t.Context(), 0)
		ls.close()
		if open > 0 {
			return
		}
	}
	t.Error("no connection was seen")
}

func TestNewConnectionEach(t *testing.T) {
	for name, answer := range map[string]string{
		"length":      okAnswer,
		"close first": "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
		"until close": "HTTP/1.1 200 OK\r\n\r\nok",
	} {
		t.Run(name, func(t *testing.T) {
			addr := tcpServer(t, answering(func(int64) string { return answer }))
			spec := quick("http://" + addr + "/")
			spec.KeepAlive = false
			w := mustRun(t, spec).Total()
			if w.Completed != w.Scheduled || w.Connects != w.Scheduled {
				t.Errorf("%+v, %d connections", w.Account, w.Connects)
			}
		})
	}
}

// TestFailures checks that each failure is counted as its kind, and that the
// rest of the requests complete.
func TestFailures(t *testing.T) {
	for _, tt := range []struct{ kind, bad string }{
		{FailEOF, ""},
		{FailStatus, "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"},
		{FailProtocol, "220 smtp.example.com\r\n\r\n"},
	} {
		t.Run(tt.kind, func(t *testing.T) {
			addr := tcpServer(t, answering(func(n int64) string {
				if n%5 == 0 {
					return tt.bad
				}
				return okAnswer
			}))
			w := mustRun(t, quick("http://"+addr+"/")).Total()
			if w.Failed[tt.kind] == 0 || w.FailedTotal() != w.Failed[tt.kind] || w.Unfinished != 0 || w.Completed == 0 {
				t.Errorf("%+v", w.Account)
			}
		})
	}
	t.Run("eof in a body", func(t *testing.T) {
		addr := tcpServer(t, func(c net.Conn) {
			if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok")
			}
		})
		if w := mustRun(t, quick("http://"+addr+"/")).Total(); w.Failed[FailEOF] != w.Scheduled {
			t.Errorf("%+v", w.Account)
		}
	})
	t.Run(FailReset, func(t *testing.T) {
		var n atomic.Int64
		addr := tcpServer(t, func(c net.Conn) {
			answering(func(int64) string {
				if n.Add(1)%5 == 0 {
					_ = c.(*net.TCPConn).SetLinger(0)
					return ""
				}
				return okAnswer
			})(c)
		})
		w := mustRun(t, quick("http://"+addr+"/")).Total()
		if w.Failed[FailReset] == 0 || w.Completed == 0 {
			t.Errorf("%+v", w.Account)
		}
	})
	t.Run(FailTimeout, func(t *testing.T) {
		never := make(chan struct{})
		defer close(never)
		addr := tcpServer(t, answering(func(n int64) string {
			if n == 3 {
				<-never
			}
			return okAnswer
		}))
		spec := quick("http://" + addr + "/")
		spec.TimeoutS = 0.2
		w := mustRun(t, spec).Total()
		if w.Failed[FailTimeout] == 0 || w.Completed == 0 {
			t.Errorf("%+v", w.Account)
		}
	})
	t.Run(FailConnect, func(t *testing.T) {
		l := loopback.Listen(t)
		go func() { // serve one connection after the probe, then close
			probe, _ := l.Accept()
			c, err := l.Accept()
			l.Close()
			if err == nil {
				probe.Close()
				answering(func(n int64) string { return okAnswer })(c)
				c.Close()
			}
		}()
		spec := quick("http://" + l.Addr().String() + "/")
		spec.KeepAlive = false
		w := mustRun(t, spec).Total()
		if w.Completed != 1 || w.Failed[FailConnect] == 0 {
			t.Errorf("%+v", w.Account)
		}
		spec.Rate = rate.Max
		if _, err := Run(context.Background(), spec, nil); err == nil || !strings.Contains(err.Error(), "refused") {
			t.Errorf("nothing listens, but: %v", err)
		}
	})
}

func TestCancelAndStop(t *testing.T) {
	addr := okServer(t)
	spec := quick("http://" + addr + "/")
	spec.DurationS = 60
	t.Run("cancel", func(t *testing.T) {
		for _, asked := range []rate.Rate{400, rate.Max} {
			ctx, cancel := context.WithCancel(context.Background())
			s := spec
			s.Rate = asked
			r, err := Run(ctx, s, func(iv Summary) {
				if iv.Completed > 0 { // at rate max the first may have none
					cancel()
				}
			})
			must.OK(t, err)
			cancel()
			checkResult(t, r)
			if !r.Interrupted || r.EndNS > 59e9 || r.Total().Completed == 0 {
				t.Errorf("interrupted %v, end %d, %+v", r.Interrupted, r.EndNS, r.Total().Account)
			}
		}
	})
	t.Run("stop after", func(t *testing.T) {
		for inTime := false; !inTime; {
			running := begin(t, spec)
			running.StopAfter(2)
			inTime = running.Progress().AtNS < 300e6
			r := ended(t, running)
			if n := len(r.Intervals); r.Interrupted || len(running.Intervals(1)) != n-1 || r.EndNS > int64(n)*100e6 || r.EndNS <= int64(n-1)*100e6 {
				t.Errorf("%d intervals, end %d, interrupted %v", n, r.EndNS, r.Interrupted)
			}
			if inTime && r.EndNS != 300e6 || r.EndNS < 300e6 { // too late: it ended immediately
				t.Errorf("asked to stop in time %v, it ended at %d", inTime, r.EndNS)
			}
			running.Stop() // after the end: no effect
		}
	})
	t.Run("stop", func(t *testing.T) {
		running := begin(t, spec)
		running.Stop()
		r := ended(t, running)
		if r.EndNS > 59e9 || r.Interrupted {
			t.Errorf("end %d, interrupted %v", r.EndNS, r.Interrupted)
		}
	})
}

func TestTCPEcho(t *testing.T) {
	addr := tcpServer(t, func(c net.Conn) { _, _ = io.Copy(c, c) })
	spec := quick("tcp://" + addr)
	spec.PayloadBytes = 10_000
	w := mustRun(t, spec).Total()
	if w.Completed != w.Scheduled || w.BytesRead != 10_000*w.Completed || w.BytesSent != w.BytesRead {
		t.Errorf("%+v, %d bytes sent, %d read", w.Account, w.BytesSent, w.BytesRead)
	}
	liar := tcpServer(t, func(c net.Conn) {
		b := make([]byte, 10_000)
		for {
			if _, err := io.ReadFull(c, b); err != nil {
				return
			}
			b[7000]++
			_, _ = c.Write(b)
		}
	})
	spec.URL = "tcp://" + liar
	if w := mustRun(t, spec).Total(); w.Failed[FailProtocol] != w.Scheduled {
		t.Errorf("a changed echo passed: %+v", w.Account)
	}
}
