package kubernetes

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/testing/must"
)

// stalling accepts connections, the first of which get no handshake.
type stalling struct {
	net.Listener
	first int
	held  []net.Conn
}

func (l *stalling) Accept() (net.Conn, error) {
	for ; l.first > 0; l.first-- {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		l.held = append(l.held, c)
	}
	return l.Listener.Accept()
}

// preparedClient returns a client of a server by a prepared configuration with these limits.
func preparedClient(t *testing.T, server *httptest.Server, limit func(*http.Transport)) *http.Client {
	transport := server.Client().Transport.(*http.Transport)
	limit(transport)
	config := &rest.Config{Host: server.URL, Transport: transport}
	Prepare(config)
	client, err := rest.HTTPClientFor(config)
	must.OK(t, err)
	return client
}

func TestPrepareRetriesHandshakes(t *testing.T) {
	for name, tt := range map[string]struct {
		stalled int
		ok      bool
	}{"none stalls": {0, true}, "two stall": {2, true}, "all stall": {3, false}} {
		t.Run(name, func(t *testing.T) {
			answered := 0
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				answered++
				_, _ = io.Copy(w, r.Body)
			}))
			listener := &stalling{Listener: server.Listener, first: tt.stalled}
			server.Listener = listener
			server.StartTLS()
			defer func() {
				server.Close()
				for _, c := range listener.held {
					c.Close()
				}
			}()
			client := preparedClient(t, server, func(tr *http.Transport) { tr.TLSHandshakeTimeout = 100 * time.Millisecond })
			response, err := client.Post(server.URL, "text/plain", bytes.NewReader([]byte("body")))
			if !tt.ok {
				if err == nil || answered != 0 {
					t.Errorf("%v after %d answers", err, answered)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			if text, err := io.ReadAll(response.Body); string(text) != "body" || err != nil || answered != 1 {
				t.Errorf("%q, %v after %d answers", text, err, answered)
			}
		})
	}
}

// A request that was sent may have been executed, so it is not sent again.
func TestPrepareSendsOnce(t *testing.T) {
	var sent atomic.Int32
	server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		sent.Add(1)
		<-r.Context().Done()
	}))
	defer server.Close()
	client := preparedClient(t, server, func(tr *http.Transport) { tr.ResponseHeaderTimeout = 100 * time.Millisecond })
	if _, err := client.Get(server.URL); err == nil || sent.Load() != 1 {
		t.Errorf("%v after %d requests", err, sent.Load())
	}
}
