package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/drive/worker/control"
	"github.com/meshtrial/meshtrial/study/protocol"
	"github.com/meshtrial/meshtrial/testing/eventually"
	"github.com/meshtrial/meshtrial/testing/must"
	"google.golang.org/grpc/status"
)

// set merges a change into the configuration in force.
func (r running) set(t *testing.T, change func(*control.Config)) {
	t.Helper()
	must.OK(t, must.Err(r.ctl.Update(t.Context(), change)))
}

func TestFailures(t *testing.T) {
	crashed := make(chan struct{}, 100)
	w := start(t, func(o *Options) {
		o.Config = control.Config{ResponseBytes: 5000} // which takes 50 s if sent slowly
		o.Crash = func() { crashed <- struct{}{} }
	})
	protocols := []string{protocol.HTTP1, protocol.HTTP2, protocol.HTTPS, protocol.GRPC, protocol.TCP}
	// try makes a request and returns its outcome. It abandons a request that
	// never ends some time after the worker has counted it.
	try := func(speaks, how string, endless bool) string {
		ctx, giveUp := context.WithTimeout(t.Context(), time.Minute)
		defer giveUp()
		if endless {
			before := w.Counters().Planted[how]
			go func() {
				for ctx.Err() == nil && w.Counters().Planted[how] == before {
					time.Sleep(time.Millisecond)
				}
				time.Sleep(100 * time.Millisecond)
				giveUp()
			}()
		}
		switch speaks {
		case protocol.GRPC:
			_, err := unary(ctx, t, w.addr[speaks], "hello")
			return status.Code(err).String()
		case protocol.TCP:
			conn, err := net.Dial("tcp", w.addr[speaks])
			must.OK(t, err)
			defer conn.Close()
			defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
			if _, err := conn.Write([]byte("hello")); err != nil {
				return err.Error()
			}
			answer := make([]byte, 10)
			n, err := conn.Read(answer)
			switch {
			case errors.Is(err, os.ErrDeadlineExceeded):
				return "given up"
			case errors.Is(err, syscall.ECONNRESET):
				return "reset"
			case err != nil:
				return err.Error()
			}
			return string(answer[:n])
		}
		req, _ := http.NewRequestWithContext(ctx, http.MethodGet, scheme(speaks)+w.addr[speaks], nil)
		resp, err := client(t, speaks).Do(req)
		var data []byte
		if err == nil {
			defer resp.Body.Close()
			data, err = io.ReadAll(resp.Body)
		}
		switch {
		case errors.Is(err, context.Canceled):
			return fmt.Sprintf("given up after %d bytes", len(data))
		case errors.Is(err, syscall.ECONNRESET):
			return "reset"
		case err != nil && strings.Contains(err.Error(), "stream error"):
			return "stream reset"
		case err != nil:
			return err.Error()
		}
		return fmt.Sprint(resp.StatusCode, " ", len(data))
	}
	for _, test := range []struct {
		failure control.Failure
		want    []string // by protocol
	}{
		{control.Failure{Share: 0, How: control.FailHang}, []string{"200 5000", "200 5000", "200 5000", "OK", "hello"}},
		{control.Failure{Share: 1, How: control.FailStatus, Status: 503}, []string{"503 18", "503 18", "503 18", "Unavailable", "EOF"}},
		{control.Failure{Share: 1, How: control.FailStatus, Status: 429, Early: true}, []string{"429 18", "429 18", "429 18", "ResourceExhausted", "EOF"}},
		{control.Failure{Share: 1, How: control.FailReset}, []string{"reset", "stream reset", "stream reset", "Unavailable", "reset"}},
		{control.Failure{Share: 1, How: control.FailHang}, []string{"given up after 0 bytes", "given up after 0 bytes", "given up after 0 bytes", "Canceled", "given up"}},
		{control.Failure{Share: 1, How: control.FailSlowBody}, []string{"given up after", "given up after", "given up after", "Canceled", "hello"}},
		{control.Failure{Share: 1, How: control.FailCrash}, []string{"reset", "stream reset", "stream reset", "Unavailable", "reset"}},
	} {
		w.set(t, func(c *control.Config) { c.Failures = []control.Failure{test.failure} })
		before := w.Counters().Planted[test.failure.How]
		for i, speaks := range protocols {
			endless := strings.HasPrefix(test.want[i], "given up") || test.want[i] == "Canceled"
			if got := try(speaks, test.failure.How, endless); !strings.HasPrefix(got, test.want[i]) {
				t.Errorf("%s over %s: %q, want %q", test.failure.How, speaks, got, test.want[i])
			}
		}
		want := int64(len(protocols)) * int64(test.failure.Share)
		if got := w.Counters().Planted[test.failure.How] - before; got != want {
			t.Errorf("%s: %d counted, want %d", test.failure.How, got, want)
		}
	}
	if len(crashed) != len(protocols) {
		t.Errorf("%d crashes of %d", len(crashed), len(protocols))
	}
}

// Shares are kept: with n draws and share p, the count lies within five standard
// deviations of np except in one case in a million.
func TestSharesOfFailures(t *testing.T) {
	const n = 100_000
	failures := []control.Failure{{Share: 0.2, How: control.FailReset}, {Share: 0.05, How: control.FailHang}}
	count := map[string]float64{}
	for range n {
		if f := draw(failures); f != nil {
			count[f.How]++
		}
	}
	for _, f := range failures {
		if got := count[f.How]; got < n*f.Share-5*130 || got > n*f.Share+5*130 {
			t.Errorf("%s: %v of %d, share %v", f.How, got, n, f.Share)
		}
	}
}

// With two places and three in the queue, one of six concurrent requests is
// rejected and the others are served two at a time.
func TestConcurrencyAndQueue(t *testing.T) {
	// Each request that has a place calls a server that answers on command.
	var here, most atomic.Int64
	release := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		n := here.Add(1)
		defer here.Add(-1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(slow.Close) // after the worker, which calls it
	w := start(t, func(o *Options) {
		o.Config = control.Config{ResponseBytes: 1, Concurrency: 2, Queue: 3,
			ServiceTime: control.ServiceTime{Distribution: control.Fixed, MeanUS: 20_000},
			Calls:       []control.Call{{Name: "slow", URL: slow.URL, Protocol: protocol.HTTP1, TimeoutMS: 60_000}}}
	})
	c := client(t, protocol.HTTP1)
	answers := make(chan int, 6)
	ask := func() {
		code, _ := httpCall(t, c, "http://"+w.addr[protocol.HTTP1], "", nil)
		answers <- code
	}
	for range 5 {
		go ask()
	}
	eventually.Holds(t, "two served, three waiting", func() bool { return here.Load() == 2 && w.Counters().Waiting == 3 })
	go ask()
	if code := <-answers; code != 503 {
		t.Errorf("the sixth: status %d", code)
	}
	for n := range 5 {
		left := int64(5 - n)
		eventually.Holds(t, "the next to have its place", func() bool { return here.Load() == min(left, 2) && w.Counters().Waiting == max(left-2, 0) })
		if len(answers) > 0 {
			t.Error("answered before its service was over")
		}
		release <- struct{}{}
		if code := <-answers; code != 200 {
			t.Errorf("status %d", code)
		}
	}
	if most.Load() != 2 {
		t.Errorf("%d were served at once", most.Load())
	}
	if got := w.Counters(); got.Overflowed != 1 || got.Waiting != 0 || got.InFlight != 0 {
		t.Errorf("%d overflowed, %d waiting, %d in flight", got.Overflowed, got.Waiting, got.InFlight)
	}
}

// Burned time is CPU time of the process, whatever else runs on the machine.
func TestBurn(t *testing.T) {
	w := start(t, func(o *Options) { o.Config = control.Config{ResponseBytes: 1, BurnUS: 20_000} })
	before := w.Counters().CPU
	const n = 20
	for range n {
		httpCall(t, client(t, protocol.HTTP1), "http://"+w.addr[protocol.HTTP1], "", nil)
	}
	after := w.Counters().CPU
	if used := after.User + after.System - before.User - before.System; used < n*0.020 {
		t.Errorf("%d requests of 20 ms used %.3f s of CPU", n, used)
	}
}

func TestMemoryIsHeld(t *testing.T) {
	w := start(t, nil)
	resident := func() int64 {
		text, err := os.ReadFile("/proc/self/statm")
		must.OK(t, err)
		var size, pages int64
		must.OK(t, must.Err(fmt.Sscan(string(text), &size, &pages)))
		return pages * int64(os.Getpagesize())
	}
	before := resident()
	const held = 200 << 20
	w.set(t, func(c *control.Config) { c.MemoryBytes = held })
	if got := resident() - before; got < held*9/10 {
		t.Errorf("%d MB more are resident", got>>20)
	}
}

func TestCalls(t *testing.T) {
	log := &locked{}
	back := start(t, func(o *Options) { o.Config, o.RequestLog = control.Config{ResponseBytes: 1000}, log })
	front := start(t, func(o *Options) { o.Config = control.Config{ResponseBytes: 10} })
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	nobody := gone.Addr().String()
	gone.Close()
	url := "http://" + front.addr[protocol.HTTP1]
	get := func() (int, string) {
		return httpCall(t, client(t, protocol.HTTP1), url, "", http.Header{"X-Request-Id": {"mm-1"}})
	}
	never := 0.0
	call := func(speaks string) control.Call {
		return control.Call{Name: "back", URL: "http://" + back.addr[speaks] + "/", Protocol: speaks}
	}
	for _, test := range []struct {
		name     string
		calls    []control.Call
		parallel bool
		back     func(*control.Config)
		status   int
		reply    string // part of it
		served   int64  // by back
	}{
		{name: "none", status: 200},
		{name: "http1", calls: []control.Call{call(protocol.HTTP1)}, status: 200, served: 1},
		{name: "http2", calls: []control.Call{call(protocol.HTTP2)}, status: 200, served: 1},
		{name: "grpc", calls: []control.Call{call(protocol.GRPC)}, status: 200, served: 1},
		{name: "never", calls: []control.Call{func() control.Call { c := call(protocol.HTTP1); c.Probability = &never; return c }()}, status: 200},
		{name: "three times", calls: []control.Call{func() control.Call { c := call(protocol.HTTP1); c.Times = 3; return c }()}, status: 200, served: 3},
		{name: "all at once", calls: []control.Call{call(protocol.HTTP1), call(protocol.HTTP2), call(protocol.GRPC)}, parallel: true, status: 200, served: 3},
		{name: "nobody there", calls: []control.Call{{Name: "nobody", URL: "http://" + nobody}}, status: 502, reply: "the call to nobody failed: connect"},
		{name: "nobody needed", calls: []control.Call{{Name: "nobody", URL: "http://" + nobody, Optional: true}}, status: 200},
		{name: "error", calls: []control.Call{call(protocol.HTTP1)}, back: failing(control.FailStatus, 500), status: 502, reply: "back failed: 500", served: 1},
		{name: "retried", calls: []control.Call{func() control.Call { c := call(protocol.HTTP1); c.Retries = 2; return c }()}, back: failing(control.FailStatus, 500), status: 502, reply: "back failed: 500", served: 3},
		{name: "not retried", calls: []control.Call{func() control.Call { c := call(protocol.HTTP1); c.Retries = 2; return c }()}, back: failing(control.FailStatus, 404), status: 502, reply: "back failed: 404", served: 1},
		{name: "reset", calls: []control.Call{func() control.Call { c := call(protocol.HTTP1); c.URL += "x"; return c }()}, back: failing(control.FailReset, 0), status: 502, reply: "back failed: reset"},
		{name: "timeout", calls: []control.Call{func() control.Call { c := call(protocol.HTTP1); c.TimeoutMS = 50; return c }()}, back: failing(control.FailHang, 0), status: 504, reply: "back failed: timeout", served: 1},
		{name: "grpc, the server's own 504", calls: []control.Call{call(protocol.GRPC)}, back: failing(control.FailStatus, 504), status: 502, reply: "back failed: 504", served: 1},
		{name: "grpc timeout", calls: []control.Call{func() control.Call { c := call(protocol.GRPC); c.TimeoutMS = 50; return c }()}, back: failing(control.FailHang, 0), status: 504, reply: "back failed: timeout", served: 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			back.set(t, func(c *control.Config) { c.Failures = nil })
			if test.back != nil {
				back.set(t, test.back)
			}
			front.set(t, func(c *control.Config) { c.Calls, c.Parallel = test.calls, test.parallel })
			for try := 1; ; try++ {
				before := back.Counters().Flat()["requests"]
				status, reply := get()
				if status != test.status || !strings.Contains(reply, test.reply) {
					t.Errorf("%d %q, want %d %q", status, reply, test.status, test.reply)
				}
				patience := time.Minute
				if test.status == http.StatusGatewayTimeout && try < 20 {
					patience = time.Second // its time may have been over before it arrived
				}
				var served int64
				for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
					if served = int64(back.Counters().Flat()["requests"] - before); served >= test.served || time.Now().After(end) {
						break
					}
				}
				if served == 0 && test.served > 0 && patience == time.Second {
					continue
				}
				if test.served > 0 && served != test.served {
					t.Errorf("%d served, want %d", served, test.served)
				}
				return
			}
		})
	}
	got := front.Counters().Calls["nobody"]
	if got.Requests != 2 || got.Attempts != 2 || got.OK != 0 || got.Failed["connect"] != 2 {
		t.Errorf("calls to nobody: %+v", got)
	}
	must.OK(t, back.stop())
	if n := strings.Count(log.b.String(), "\n"); n == 0 || strings.Count(log.b.String(), `"id":"mm-1"`) != n {
		t.Errorf("%d requests in the log:\n%s", n, &log.b)
	}
}

// Time tells whether a server's DEADLINE_EXCEEDED refers to the caller's
// deadline: it may arrive before the caller's own timer fires.
func TestExpired(t *testing.T) {
	deadline := time.Now().Add(time.Minute)
	ctx, cancel := context.WithDeadline(t.Context(), deadline)
	defer cancel()
	for _, test := range []struct {
		ctx  context.Context
		now  time.Time
		want bool
	}{
		{ctx, deadline.Add(-time.Second), false},
		{ctx, deadline.Add(-time.Microsecond), true},
		{ctx, deadline.Add(time.Second), true},
		{t.Context(), deadline, false},
	} {
		if got := expired(test.ctx, test.now); got != test.want {
			t.Errorf("%s before: %v", deadline.Sub(test.now), got)
		}
	}
	if got := reason(ctx, ctx, 0, context.DeadlineExceeded); got != callTimedOut {
		t.Errorf("a deadline that the server told: %q", got)
	}
}

func failing(how string, status int) func(*control.Config) {
	return func(c *control.Config) { c.Failures = []control.Failure{{Share: 1, How: how, Status: status}} }
}

func TestReadiness(t *testing.T) {
	w := start(t, nil)
	probe := func(path string) int {
		resp, err := http.Get("http://" + w.addr["health"] + path)
		must.OK(t, err)
		resp.Body.Close()
		return resp.StatusCode
	}
	if ready, alive := probe("/readyz"), probe("/healthz"); ready != 200 || alive != 200 {
		t.Errorf("ready %d, alive %d", ready, alive)
	}
	w.set(t, func(c *control.Config) { c.NotReady = true })
	if ready, alive := probe("/readyz"), probe("/healthz"); ready != 503 || alive != 200 {
		t.Errorf("not ready: ready %d, alive %d", ready, alive)
	}
}

// A worker with a delay that is told to end continues to serve but is not ready.
func TestDrainWithDelay(t *testing.T) {
	get := func(address string) int {
		resp, err := client(t, protocol.HTTP1).Get("http://" + address)
		if err != nil {
			return 0
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	for delay := 400 * time.Millisecond; ; delay *= 2 {
		w := start(t, func(o *Options) {
			o.Config = control.Config{ResponseBytes: 1, Drain: control.Drain{DelayMS: float64(delay.Milliseconds())}}
			o.DrainTimeout = time.Minute
		})
		ended := make(chan error, 1)
		begin := time.Now()
		go func() { ended <- w.stop() }()
		eventually.Holds(t, "told to end", w.leaving.Load)
		served, ready := get(w.addr[protocol.HTTP1]), get(w.addr["health"]+"/readyz")
		inTime := time.Since(begin) < delay
		if err := <-ended; err != nil || time.Since(begin) < delay {
			t.Errorf("ended after %v: %v", time.Since(begin), err)
		}
		if !inTime && delay < 20*time.Second {
			continue // the machine was too slow to ask before the delay was over
		}
		if served != 200 || ready != 503 {
			t.Errorf("served %d, ready %d", served, ready)
		}
		return
	}
}

// With drain off, requests in flight are cut off immediately.
func TestDrainOff(t *testing.T) {
	w := start(t, func(o *Options) {
		o.Config = control.Config{ResponseBytes: 1, Drain: control.Drain{Off: true}, ServiceTime: control.ServiceTime{Distribution: control.Fixed, MeanUS: 60e6}}
	})
	failed := make(chan error, 1)
	go func() {
		resp, err := client(t, protocol.HTTP1).Get("http://" + w.addr[protocol.HTTP1])
		if err == nil {
			resp.Body.Close()
		}
		failed <- err
	}()
	eventually.Holds(t, "a request is in flight", func() bool { return w.Counters().InFlight > 0 })
	begin := time.Now()
	if err := w.stop(); err != nil || time.Since(begin) > 30*time.Second {
		t.Errorf("ended after %v: %v", time.Since(begin), err)
	}
	if err := <-failed; err == nil {
		t.Error("the request was answered")
	}
}

func TestChangesOfMany(t *testing.T) {
	var workers []running
	var clients []control.Client
	for range 5 {
		w := start(t, nil)
		workers, clients = append(workers, w), append(clients, w.ctl)
	}
	sizes := func() (out []int64) {
		for _, w := range workers {
			out = append(out, w.active.Load().config.ResponseBytes)
		}
		return out
	}
	must.OK(t, control.UpdateAll(t.Context(), clients, func(i int, c *control.Config) { c.ResponseBytes = int64(100 + i) }))
	if got := sizes(); !slices.Equal(got, []int64{100, 101, 102, 103, 104}) {
		t.Errorf("changed: %v", got)
	}
	// If one worker refuses, all keep their configuration.
	err := control.UpdateAll(t.Context(), clients, func(i int, c *control.Config) {
		if c.ResponseBytes = 7; i == 3 {
			c.Queue = -1
		}
	})
	if err == nil || !strings.Contains(err.Error(), "reverted") || !strings.Contains(err.Error(), "queue is -1") {
		t.Errorf("error %v", err)
	}
	if got := sizes(); !slices.Equal(got, []int64{100, 101, 102, 103, 104}) {
		t.Errorf("refused: %v", got)
	}
}

func TestBadChanges(t *testing.T) {
	w := start(t, nil)
	base := "http://" + w.addr["control"]
	do := func(body string) (int, string) {
		req, _ := http.NewRequestWithContext(t.Context(), "POST", base+"/v1/config", strings.NewReader(body))
		resp, err := http.DefaultClient.Do(req)
		must.OK(t, err)
		defer resp.Body.Close()
		data, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(data)
	}
	config := func(field string) string { return `{"version": 1, ` + field + `}` }
	for _, test := range []struct {
		body   string
		status int
		want   string
	}{
		{config(`"concurrency": -1`), 400, "concurrency is -1"},
		{config(`"queue": 5`), 400, "no request would wait"},
		{config(`"burn_us": 1e99`), 400, "burn_us"},
		{config(`"failures": [{"share": 0.7, "how": "reset"}, {"share": 0.7, "how": "hang"}]`), 400, "add up to 1.4"},
		{config(`"failures": [{"share": 1, "how": "explode"}]`), 400, `failures[0]: how is \"explode\"`},
		{config(`"failures": [{"share": 1, "how": "status", "status": 200}]`), 400, "status is 200"},
		{config(`"failures": [{"share": 1, "how": "crash"}]`), 400, "failures[0]: this worker cannot end its process"},
		{config(`"calls": [{"name": "x", "url": "file:///etc/passwd"}]`), 400, "calls[0]: url is"},
		{config(`"calls": [{"name": "x", "url": "http://y", "times": -1}]`), 400, "times is -1"},
		{config(`"drain": {"off": true, "delay_ms": 5}`), 400, "ends the worker at once"},
		{`{"version": 9}`, 409, "a different version"},
		{`{"version": 1, "size": 5}`, 400, "unknown field"},
		{`[]`, 400, "cannot unmarshal"},
		{`{"version": 1, "service_time": {"distribution": "fixed", "mean_us": 5}}`, 200, `"mean_us":5`},
	} {
		if status, body := do(test.body); status != test.status || !strings.Contains(body, test.want) {
			t.Errorf("%s: %d %s; want %d %q", test.body, status, body, test.status, test.want)
		}
	}
	if c := w.active.Load().config; c.Version != 2 || c.ServiceTime.MeanUS != 5 {
		t.Errorf("in force: %+v", c)
	}
}

func TestTokenIsAsked(t *testing.T) {
	w := start(t, func(o *Options) { o.Control, o.Token = "0.0.0.0:0", "secret" })
	_, port, _ := net.SplitHostPort(w.addr["control"])
	c := control.Client{BaseURL: "http://127.0.0.1:" + port}
	if _, err := c.Config(t.Context()); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("without: %v", err)
	}
	c.Token = "secret"
	must.OK(t, must.Err(c.Config(t.Context())))
}

// Many requests run while the configuration changes: each ends as one of the
// configurations in force specifies.
func TestChangesUnderLoad(t *testing.T) {
	w := start(t, func(o *Options) { o.Config = control.Config{ResponseBytes: 1, Concurrency: 4, Queue: 1000} })
	stop := make(chan struct{})
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			c := client(t, protocol.HTTP1)
			for {
				select {
				case <-stop:
					return
				default:
				}
				resp, err := c.Get("http://" + w.addr[protocol.HTTP1])
				if err != nil {
					t.Error(err)
					return
				}
				n, err := io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				if err != nil || resp.StatusCode != 200 && resp.StatusCode != 500 || resp.StatusCode == 200 && n != 1 && n != 2 {
					t.Errorf("%d, %d bytes, %v", resp.StatusCode, n, err)
				}
			}
		})
	}
	for i := range 50 {
		w.set(t, func(c *control.Config) {
			c.ResponseBytes = int64(1 + i%2)
			c.Concurrency = 1 + i%3
			c.Failures = []control.Failure{{Share: float64(i%2) / 2, How: control.FailStatus, Status: 500}}
		})
	}
	close(stop)
	group.Wait()
	if got := w.Counters(); got.InFlight != 0 || got.Waiting != 0 {
		t.Errorf("%d in flight, %d waiting", got.InFlight, got.Waiting)
	}
}
