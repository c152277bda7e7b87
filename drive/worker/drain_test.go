package worker

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/drive/worker/control"
	"github.com/meshtrial/meshtrial/study/protocol"
	"github.com/meshtrial/meshtrial/testing/eventually"
	"github.com/meshtrial/meshtrial/testing/must"
)

// holdCalls makes every request call a backend that answers once the channel is closed.
func holdCalls(t *testing.T, o *Options, release <-chan struct{}) {
	backend := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(backend.Close)
	o.Config.Calls = []control.Call{{Name: "backend", URL: backend.URL, TimeoutMS: 60_000}}
}

func TestDrainFinishesWhatIsUnderWay(t *testing.T) {
	release := make(chan struct{})
	w := start(t, func(o *Options) { o.DrainTimeout = time.Minute; holdCalls(t, o, release) })
	results := make(chan error, 4)
	for _, speaks := range []string{protocol.HTTP1, protocol.HTTP2} {
		c := client(t, speaks)
		go func() {
			resp, err := c.Post("http://"+w.addr[speaks], "", strings.NewReader("x"))
			if err == nil {
				_, err = io.ReadAll(resp.Body)
				resp.Body.Close()
			}
			results <- err
		}()
	}
	go func() {
		_, err := unary(context.Background(), t, w.addr[protocol.GRPC], "x")
		results <- err
	}()
	conn := dial(t, w.addr[protocol.TCP])
	go func() {
		fmt.Fprint(conn, "x")
		_, err := io.ReadFull(conn, make([]byte, 1))
		results <- err
	}()
	dial(t, w.addr[protocol.TCP]) // idle: it must not delay the drain
	eventually.Holds(t, "all requests are in flight", func() bool {
		return w.counters.inFlight.Load() == 4 && w.counters.protocol(protocol.TCP).connections.Load() == 2
	})
	drained := make(chan error, 1)
	go func() { drained <- w.stop() }()
	eventually.Holds(t, "draining", w.draining.Load)
	resp, err := client(t, protocol.HTTP1).Get("http://" + w.addr["health"] + "/readyz")
	must.OK(t, err)
	resp.Body.Close()
	if resp.StatusCode != 503 {
		t.Errorf("ready while it drains: %d", resp.StatusCode)
	}
	close(release)
	if err := <-drained; err != nil {
		t.Errorf("drain: %v", err)
	}
	for range 4 {
		if err := <-results; err != nil {
			t.Errorf("a request under way failed: %v", err)
		}
	}
	if _, err := net.Dial("tcp", w.addr[protocol.HTTP1]); err == nil {
		t.Error("the port still accepts")
	}
	if open, requests := w.counters.openConnections.Load(), w.Counters().Flat()["requests"]; open != 0 || requests != 4 {
		t.Errorf("%d connections still counted as open, and %v requests, of 4 without the probe", open, requests)
	}
}

func TestDrainGivesUpInTime(t *testing.T) {
	w := start(t, func(o *Options) {
		o.DrainTimeout = 50 * time.Millisecond
		o.Config.ServiceTime = control.ServiceTime{Distribution: control.Fixed, MeanUS: 60e6}
	})
	failed := make(chan error, 3)
	go func() {
		_, err := client(t, protocol.HTTP1).Get("http://" + w.addr[protocol.HTTP1])
		failed <- err
	}()
	go func() {
		_, err := unary(context.Background(), t, w.addr[protocol.GRPC], "x")
		failed <- err
	}()
	go func() {
		conn, err := net.Dial("tcp", w.addr[protocol.TCP])
		if err == nil {
			fmt.Fprint(conn, "x")
			_, err = conn.Read(make([]byte, 1))
			conn.Close()
		}
		failed <- err
	}()
	eventually.Holds(t, "all requests are in flight", func() bool { return w.counters.inFlight.Load() == 3 })
	if err := w.stop(); err == nil || !strings.Contains(err.Error(), "aborted") {
		t.Errorf("Serve returned %v", err)
	}
	for range 3 {
		if err := <-failed; err == nil {
			t.Error("a request that takes a minute was answered")
		}
	}
}
