package lab

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	//lint:ignore SA1019 client-go's SPDY makes connections of this one
	"k8s.io/apimachinery/pkg/util/httpstream"
	//lint:ignore SA1019 client-go's SPDY makes connections of this one
	httpspdy "k8s.io/apimachinery/pkg/util/httpstream/spdy"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"

	"github.com/meshtrial/meshtrial/testing/must"
)

// An API server that accepts connections but never answers blocks neither dialling nor
// closing, however short the dial's timeout.
func TestDeadServerKeepsNobody(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	defer l.Close()
	taken := make(chan struct{}, 10)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			defer conn.Close() // closed with the test
			taken <- struct{}{}
		}
	}()
	d := NewDialer(&rest.Config{Host: "http://" + l.Addr().String()})
	ctx, cancel := context.WithCancel(t.Context())
	dialled := make(chan error, 1)
	go func() {
		_, err := d.DialPod(ctx, "ns", "pod", 80)
		dialled <- err
	}()
	<-taken
	cancel()
	if err := <-dialled; !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "pod ns/pod") {
		t.Errorf("dial: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if _, err := d.DialPod(t.Context(), "ns", "pod", 80); !errors.Is(err, net.ErrClosed) {
		t.Errorf("dial after close: %v", err)
	}
}

// spdyServer forwards ports over SPDY only; serve handles each stream once the client
// knows of it.
func spdyServer(t *testing.T, serve func(s httpstream.Stream)) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			http.Error(w, "no WebSocket", http.StatusBadRequest)
			return
		}
		if _, err := httpstream.Handshake(r, w, []string{portforward.PortForwardProtocolV1Name}); err != nil {
			t.Error(err)
			return
		}
		conn := httpspdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, replied <-chan struct{}) error {
			go func() {
				<-replied
				serve(s)
			}()
			return nil
		})
		if conn != nil {
			<-conn.CloseChan()
		}
	}))
	t.Cleanup(server.Close)
	return server
}

// Where WebSocket is unsupported, as with a proxy in front of the API server, SPDY works.
func TestSPDYWithoutWebSocket(t *testing.T) {
	server := spdyServer(t, func(s httpstream.Stream) {
		if s.Headers().Get(corev1.StreamType) == corev1.StreamTypeData {
			_, _ = io.WriteString(s, "hello")
		}
		s.Close()
	})
	d := NewDialer(&rest.Config{Host: server.URL})
	conn, err := d.DialPod(t.Context(), "ns", "pod", 80)
	must.OK(t, err)
	if said, err := io.ReadAll(conn); err != nil || string(said) != "hello" {
		t.Errorf("%q, %v", said, err)
	}
	if err := errors.Join(conn.Close(), d.Close()); err != nil {
		t.Error(err)
	}
}

// A wait for an unresponsive pod ends with an error when its connection is hung up. The
// next connection is a new one.
func TestHangUp(t *testing.T) {
	streams := make(chan httpstream.Stream, 4) // two per connection
	d := NewDialer(&rest.Config{Host: spdyServer(t, func(s httpstream.Stream) { streams <- s }).URL})
	d.HangUp("ns", "pod") // there is none yet
	conn, err := d.DialPod(t.Context(), "ns", "pod", 80)
	must.OK(t, err)
	read := make(chan error, 1)
	go func() {
		_, err := conn.Read(make([]byte, 1))
		read <- err
	}()
	<-streams
	<-streams
	d.HangUp("ns", "other")
	select {
	case err := <-read:
		t.Errorf("another pod's line was hung up: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	d.HangUp("ns", "pod")
	if err := <-read; err == nil {
		t.Error("a pod answered that does not")
	}
	if _, err := d.DialPod(t.Context(), "ns", "pod", 80); err != nil {
		t.Error(err)
	}
	<-streams
	<-streams
	if err := errors.Join(conn.Close(), d.Close()); err != nil {
		t.Error(err)
	}
}

// deaf is an upgraded connection to a server that has stopped reading: writes block until
// it is cut off.
type deaf struct {
	noConnection
	cut chan struct{}
}

func (c deaf) Close() error { <-c.cut; return io.ErrClosedPipe }

type cutter chan struct{}

func (c cutter) Close() error { close(c); return nil }

// A connection that is not made in time is left to its maker.
func TestCloseLeavesWhatIsBeingMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewDialer(&rest.Config{})
		d.tunnel["ns/a"] = &tunnel{ready: make(chan struct{})}
		began := time.Now()
		if err := d.Close(); err == nil || !strings.Contains(err.Error(), "did not respond") || time.Since(began) != closeTime {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// A server that has stopped reading is cut off, with all of its connections at once.
func TestDeafServerIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewDialer(&rest.Config{})
		for _, key := range []string{"ns/a", "ns/b", "ns/c"} {
			cut := make(chan struct{})
			made := &tunnel{ready: make(chan struct{}), conn: deaf{cut: cut}, raw: cutter(cut)}
			close(made.ready)
			d.tunnel[key] = made
		}
		began := time.Now()
		if err := d.Close(); err == nil || !strings.Contains(err.Error(), "did not close") {
			t.Error(err)
		}
		if took := time.Since(began); took != closeTime {
			t.Errorf("took %v", took)
		}
		synctest.Wait() // every goroutine ends: synctest.Test fails otherwise
	})
}
