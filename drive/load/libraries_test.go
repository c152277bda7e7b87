package load

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/record/rate"
	"github.com/meshtrial/meshtrial/study/protocol"

	"github.com/meshtrial/meshtrial/testing/must"
)

// TestLibraries tests the protocols that use other libraries, over TLS where
// they can.
func TestLibraries(t *testing.T) {
	echo := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Test") != "yes" {
			w.WriteHeader(400)
			return
		}
		_, _ = io.Copy(w, r.Body)
	})
	secure := httptest.NewUnstartedServer(echo)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0) // probes and refusals are part of the test
	secure.EnableHTTP2 = true
	secure.StartTLS()
	defer secure.Close()
	plain := plainServer(t, echo)
	calls := grpcServer(t)
	for _, tt := range []struct{ name, url, protocol string }{
		{"http1 tls", secure.URL, protocol.HTTP1},
		{"http2 tls", secure.URL, protocol.HTTP2},
		{"http2", plain.URL, protocol.HTTP2},
		{"grpc", calls, protocol.GRPC},
	} {
		for _, mode := range []string{"paced", "max", "new connections"} {
			t.Run(tt.name+" "+mode, func(t *testing.T) {
				spec := quick(tt.url)
				spec.Protocol, spec.PayloadBytes, spec.Rate, spec.DurationS = tt.protocol, 100, 200, 0.3
				spec.Headers = []Header{{"X-Test", "yes"}}
				if strings.HasPrefix(tt.url, "https") {
					spec.TLS = &TLS{InsecureSkipVerify: true}
				}
				if mode == "max" {
					spec.Rate = rate.Max
				}
				spec.KeepAlive = mode != "new connections"
				w := mustRun(t, spec).Total()
				if w.Completed == 0 || w.Completed != w.Scheduled || w.BytesRead < 100*w.Completed {
					t.Errorf("%+v, %d bytes read", w.Account, w.BytesRead)
				}
				if want := map[bool]int64{true: 0, false: w.Scheduled}[spec.KeepAlive]; w.Connects != want {
					t.Errorf("%d connections made, want %d", w.Connects, want)
				}
			})
		}
	}
	t.Run("untrusted", func(t *testing.T) {
		spec := quick(secure.URL)
		_, err := Run(context.Background(), spec, nil)
		var k *kindError
		if !errors.As(err, &k) || k.kind != failTLS {
			t.Errorf("an unknown authority gave %v", err)
		}
	})
	// The generator has more streams than the server allows.
	t.Run("http2 streams that wait", func(t *testing.T) {
		few := plainServer(t, func(http.ResponseWriter, *http.Request) { time.Sleep(5 * time.Millisecond) },
			func(s *http.Server) { s.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 2} })
		spec := quick(few.URL)
		spec.Protocol, spec.Connections, spec.StreamsPerConnection, spec.Rate, spec.DurationS, spec.DrainS = protocol.HTTP2, 1, 50, 1000, 0.5, 30
		if w := mustRun(t, spec).Total(); w.Completed == 0 || w.Completed != w.Scheduled || w.Connects != 0 {
			t.Errorf("%+v, %d connections made", w.Account, w.Connects)
		}
	})
	t.Run("cancel", func(t *testing.T) {
		hang := make(chan struct{})
		server := plainServer(t, func(http.ResponseWriter, *http.Request) { <-hang })
		defer close(hang)
		ctx, cancel := context.WithCancel(context.Background())
		spec := quick(server.URL)
		spec.Protocol, spec.DurationS = protocol.HTTP2, 60
		running, err := Start(ctx, spec, nil)
		must.OK(t, err)
		time.AfterFunc(50*time.Millisecond, cancel)
		r := ended(t, running)
		if w := r.Total(); w.Completed != 0 || w.Unfinished != w.Scheduled {
			t.Errorf("%+v", w.Account)
		}
	})
}
