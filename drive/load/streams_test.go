package load_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/meshtrial/meshtrial/drive/load"
	"github.com/meshtrial/meshtrial/drive/worker"
	"github.com/meshtrial/meshtrial/drive/worker/control"
	"github.com/meshtrial/meshtrial/record/rate"
	"github.com/meshtrial/meshtrial/study/protocol"
	"github.com/meshtrial/meshtrial/testing/loopback"
	"github.com/meshtrial/meshtrial/testing/must"
)

// streaming are the protocols of streams.
func streaming() []string {
	return protocol.Names(func(p protocol.Protocol) bool { return p.Streams })
}

// serving is a worker for a test.
type serving struct {
	*worker.Worker
	stop func() error
}

func serve(t *testing.T, speaks string, config control.Config) serving {
	t.Helper()
	w, err := worker.New(worker.Options{Listen: map[string]string{speaks: "127.0.0.1:0"}, Config: config, DrainTimeout: 20 * time.Second})
	must.OK(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- w.Serve(ctx) }()
	stop := sync.OnceValue(func() error {
		cancel()
		return <-served
	})
	t.Cleanup(func() { _ = stop() })
	return serving{w, stop}
}

func (s serving) url(speaks string) string {
	return protocol.Of(speaks).Plain.Scheme + "://" + s.Addresses()[speaks]
}

func streamSpec(url string) load.Spec {
	s := load.DefaultSpec(url)
	s.Connections, s.Rate, s.DurationS, s.IntervalS = 4, 400, 0.5, 0.1
	s.RequestLog, s.DrainS, s.TimeoutS = true, 30, 30
	return s
}

// runStreams runs a load to its end, or until what happens meanwhile is over.
func runStreams(t *testing.T, spec load.Spec, meanwhile func(*load.Running)) *load.Window {
	t.Helper()
	if spec.Rate.IsMax() {
		meanwhile = func(r *load.Running) { answered(t, r, 500) }
	}
	if meanwhile != nil {
		spec.DurationS = 60
	}
	running, err := load.Start(t.Context(), spec, nil)
	must.OK(t, err)
	if meanwhile != nil {
		meanwhile(running)
		running.Stop()
	}
	r, err := running.Result(t.Context())
	must.OK(t, err)
	w := r.Total()
	if !w.Balanced() {
		t.Errorf("%+v", w.Account)
	}
	if w.FailedTotal() > 0 {
		t.Logf("%v: %v", w.Failed, r.Reasons)
	}
	return w
}

// answered waits until n more messages are answered.
func answered(t *testing.T, r *load.Running, n int64) {
	t.Helper()
	for want := r.Progress().Completed + n; r.Progress().Completed < want; {
		select {
		case <-r.Done():
			t.Fatal("the run ended early")
		case <-time.After(time.Millisecond):
		}
	}
}

func TestStreams(t *testing.T) {
	for _, speaks := range streaming() {
		for _, payload := range []int{0, 1, 125, 126, 70_000} {
			for _, reply := range []int64{control.EchoBody, 0, 100_000} {
				for _, rate := range []rate.Rate{400, rate.Max} {
					t.Run(fmt.Sprintf("%s/%d/%d/%v", speaks, payload, reply, rate), func(t *testing.T) {
						w := serve(t, speaks, control.Config{ResponseBytes: reply})
						spec := streamSpec(w.url(speaks))
						spec.PayloadBytes, spec.Rate = payload, rate
						got := runStreams(t, spec, nil)
						read := reply
						if reply == control.EchoBody {
							read = int64(payload)
						}
						if got.Completed == 0 || got.Completed != got.Scheduled || got.Connects != 0 || got.BytesSent != got.Completed*int64(payload) || got.BytesRead != got.Completed*read {
							t.Errorf("%+v", got.Counts)
						}
						seen := w.Counters().Protocols[speaks]
						if seen.Connections != 4 || seen.Requests != got.Completed || seen.Status[protocol.Of(speaks).Success] != got.Completed {
							t.Errorf("the worker counted %+v", seen)
						}
					})
				}
			}
		}
	}
}

// TestMessagesDoNotWaitForAnswers checks that messages are sent when they are due, although the
// server answers those of a stream one after another.
func TestMessagesDoNotWaitForAnswers(t *testing.T) {
	for _, speaks := range streaming() {
		w := serve(t, speaks, control.Config{ServiceTime: control.ServiceTime{Distribution: control.Fixed, MeanUS: 20_000}})
		spec := streamSpec(w.url(speaks))
		spec.Connections, spec.Rate, spec.Arrival = 1, 100, load.Uniform // twice what the server can answer
		got := runStreams(t, spec, nil)
		// 50 messages in 0.5 s, of which the last waits for all others: 1 s, less the 0.49 s after
		// which it was due.
		if got.Completed != 50 || got.MaxInFlight < 20 || got.Wait.Max() > 1e6 {
			t.Errorf("%s: %+v, waited %d ns for a stream", speaks, got.Counts, got.Wait.Max())
		}
		if last := float64(got.Intended.Max()) / 1e9; last < 0.5 {
			t.Errorf("%s: the slowest answer took %.3f s", speaks, last)
		}
	}
}

// TestServerThatDoesNotRead checks that messages to a server that reads no more wait without being
// copied: 100 MB of them are due.
func TestServerThatDoesNotRead(t *testing.T) {
	for _, speaks := range streaming() {
		w := serve(t, speaks, control.Config{Failures: []control.Failure{{Share: 1, How: control.FailHang}}, Drain: control.Drain{Off: true}})
		spec := streamSpec(w.url(speaks))
		spec.Connections, spec.PayloadBytes, spec.DurationS, spec.DrainS, spec.RequestLog = 1, 256<<10, 1, 0.1, false
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got := runStreams(t, spec, nil)
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 50<<20 {
			t.Errorf("%s: %d MB were allocated for %d messages", speaks, n>>20, got.Scheduled)
		}
		if got.Unfinished != got.Scheduled || got.Scheduled < 300 || got.BytesSent > 64<<20 {
			t.Errorf("%s: %+v", speaks, got.Counts)
		}
	}
}

// leavingServer is a server of WebSockets that ends each in an orderly way instead of an answer to its
// first message. It counts them.
func leavingServer(t *testing.T) (*httptest.Server, *atomic.Int64) {
	var opened atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(rw, r, nil)
		if err != nil {
			return
		}
		opened.Add(1)
		_, _, _ = conn.Read(r.Context())
		_ = conn.Close(websocket.StatusGoingAway, "")
	}))
	t.Cleanup(server.Close)
	return server, &opened
}

// TestStreamsThatEndAtOnce checks that a server that ends each stream instead of an answer is not
// asked for new ones without a pause, and that every message is accounted for.
func TestStreamsThatEndAtOnce(t *testing.T) {
	for _, rate := range []rate.Rate{400, rate.Max} {
		server, opened := leavingServer(t)
		spec := streamSpec("ws://" + server.Listener.Addr().String())
		spec.Rate, spec.TimeoutS, spec.DrainS = rate, 0.2, 1
		running, err := load.Start(t.Context(), spec, nil)
		must.OK(t, err)
		r, err := running.Result(t.Context())
		must.OK(t, err)
		got := r.Total()
		if !got.Balanced() || got.Completed != 0 || got.Failed[load.FailTimeout] == 0 {
			t.Errorf("%v: %+v", rate, got.Account)
		}
		// 1.5 s and 4 streams, one each 20 ms at most, fewer if CPUs are busy. Each message is sent
		// again until it times out.
		if n := opened.Load(); n < 4*5 || n > 4*100 {
			t.Errorf("%v: %d streams were opened", rate, n)
		}
	}
}

// TestReopeningFails checks that messages that wait for a stream that its server ended in an orderly
// way fail, each once, if no server is there any more.
func TestReopeningFails(t *testing.T) {
	for _, speaks := range streaming() {
		for _, rate := range []rate.Rate{400, rate.Max} {
			config := control.Config{ServiceTime: control.ServiceTime{Distribution: control.Fixed, MeanUS: 20_000}}
			w := serve(t, speaks, config)
			spec := streamSpec(w.url(speaks))
			spec.Rate, spec.TimeoutS, spec.DurationS = rate, 5, 60
			running, err := load.Start(t.Context(), spec, nil)
			must.OK(t, err)
			answered(t, running, 20)
			must.OK(t, w.stop())
			time.Sleep(100 * time.Millisecond)
			running.Stop()
			r, err := running.Result(t.Context())
			must.OK(t, err)
			got, logged := r.Total(), map[string]int64{}
			for q := range r.Requests.All() {
				logged[q.Outcome]++
			}
			served := w.Counters().Protocols[speaks].Status[protocol.Of(speaks).Success]
			if !got.Balanced() || got.Completed != served || got.Failed[load.FailConnect] == 0 || got.Unfinished != 0 ||
				logged[load.OutcomeOK] != served || logged[load.FailConnect] != got.Failed[load.FailConnect] || logged[load.FailStream] != got.Failed[load.FailStream] {
				t.Errorf("%s at %v: %+v, logged %v, served %d", speaks, rate, got.Account, logged, served)
			}
		}
	}
}

// relay forwards connections to an address that may change.
type relay struct {
	listener net.Listener
	to       atomic.Pointer[string]
	accepted atomic.Int64
}

func newRelay(t *testing.T) *relay {
	r := &relay{listener: loopback.Listen(t)}
	var all sync.WaitGroup
	t.Cleanup(func() {
		r.listener.Close()
		all.Wait()
	})
	all.Go(func() {
		for {
			from, err := r.listener.Accept()
			if err != nil {
				return
			}
			r.accepted.Add(1)
			all.Go(func() {
				defer from.Close()
				address := r.to.Load()
				if address == nil {
					return
				}
				to, err := net.Dial("tcp", *address)
				if err != nil {
					return
				}
				defer to.Close()
				go func() {
					_, _ = io.Copy(to, from)
					to.Close()
				}()
				_, _ = io.Copy(from, to)
			})
		}
	})
	return r
}

// TestDrain checks that a server that drains loses no message, and that one that does not is found.
func TestDrain(t *testing.T) {
	for _, speaks := range streaming() {
		for _, off := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%v", speaks, off), func(t *testing.T) {
				config := control.Config{ServiceTime: control.ServiceTime{Distribution: control.Fixed, MeanUS: 5000}, Drain: control.Drain{Off: off}}
				old, next := serve(t, speaks, config), serve(t, speaks, config)
				r := newRelay(t)
				address := old.Addresses()[speaks]
				r.to.Store(&address)
				spec := streamSpec(protocol.Of(speaks).Plain.Scheme + "://" + r.listener.Addr().String())
				spec.Rate, spec.Connections = 500, 8
				got := runStreams(t, spec, func(running *load.Running) {
					answered(t, running, 200)
					address := next.Addresses()[speaks]
					r.to.Store(&address)
					must.OK(t, old.stop())
					answered(t, running, 200)
				})
				if got.Connects < 8 {
					t.Errorf("%d streams were opened again", got.Connects)
				}
				if lost := got.Scheduled - got.Completed; (lost > 0) != off {
					t.Errorf("lost %d of %d messages: %v", lost, got.Scheduled, got.Failed)
				}
				served := old.Counters().Protocols[speaks].Status[protocol.Of(speaks).Success] + next.Counters().Protocols[speaks].Status[protocol.Of(speaks).Success]
				if !off && served != got.Completed {
					t.Errorf("%d messages were answered twice", served-got.Completed)
				}
			})
		}
	}
}

// TestLostStreams checks that every message that is due on a stream without a server is lost.
func TestLostStreams(t *testing.T) {
	for _, speaks := range streaming() {
		old := serve(t, speaks, control.Config{Drain: control.Drain{Off: true}})
		r := newRelay(t)
		address := old.Addresses()[speaks]
		r.to.Store(&address)
		spec := streamSpec(protocol.Of(speaks).Plain.Scheme + "://" + r.listener.Addr().String())
		spec.Arrival, spec.Rate = load.Uniform, 1000
		got := runStreams(t, spec, func(running *load.Running) {
			answered(t, running, 300)
			r.to.Store(nil)
			must.OK(t, old.stop())
			time.Sleep(300 * time.Millisecond) // in which 300 messages are due
			address := serve(t, speaks, control.Config{}).Addresses()[speaks]
			r.to.Store(&address)
			answered(t, running, 100)
		})
		if n := got.Failed[load.FailStream]; n < 250 || got.Completed < 400 {
			t.Errorf("%s: %+v", speaks, got.Account)
		}
	}
}

// TestPlantedStreamFailures checks the kinds of failure for what a worker does to a message.
func TestPlantedStreamFailures(t *testing.T) {
	for _, speaks := range streaming() {
		for how, want := range map[string]string{control.FailStatus: load.FailStatus, control.FailReset: load.FailReset, control.FailHang: load.FailTimeout} {
			f := control.Failure{Share: 0.1, How: how}
			if how == control.FailStatus {
				f.Status = 503
			}
			if how == control.FailReset && speaks == protocol.GRPCStream {
				want = load.FailStatus // UNAVAILABLE
			}
			spec := streamSpec(serve(t, speaks, control.Config{Failures: []control.Failure{f}, Drain: control.Drain{Off: true}}).url(speaks))
			if how == control.FailHang {
				spec.TimeoutS = 0.1
			}
			got := runStreams(t, spec, nil)
			if got.Failed[want] == 0 || got.Completed == 0 || got.Connects == 0 {
				t.Errorf("%s, %s: %+v", speaks, how, got.Counts)
			}
		}
	}
}

func TestStreamsThatDoNotOpen(t *testing.T) {
	refusing := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(503) }))
	defer refusing.Close()
	spec := streamSpec("ws://" + refusing.Listener.Addr().String())
	if _, err := load.Start(t.Context(), spec, nil); err == nil || !strings.Contains(err.Error(), "HTTP status 503") {
		t.Errorf("%v", err)
	}
	for _, bad := range []struct {
		change func(*load.Spec)
		want   string
	}{
		{func(s *load.Spec) { s.KeepAlive = false }, "keep_alive"},
		{func(s *load.Spec) { s.MaxConnections = 10 }, "max_connections"},
		{func(s *load.Spec) { s.StreamsPerConnection = 2 }, "streams_per_connection"},
		{func(s *load.Spec) { s.URL = "https://127.0.0.1:1/"; s.Protocol = protocol.WebSocket }, "plain text"},
		{func(s *load.Spec) { s.Method = "GET" }, "method"},
		{func(s *load.Spec) { s.Headers = []load.Header{{Name: "Sec-WebSocket-Key", Value: "x"}} }, "headers[0]"},
	} {
		spec := streamSpec("ws://127.0.0.1:1/")
		bad.change(&spec)
		if err := spec.Validate(); err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%s: %v", bad.want, err)
		}
	}
	if !slices.Equal(streaming(), []string{protocol.WebSocket, protocol.GRPCStream}) {
		t.Error(streaming())
	}
}
