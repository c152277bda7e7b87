package routeprobe_test

import (
	"crypto/tls"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/drive/xds/routeprobe"
	"github.com/meshtrial/meshtrial/internal/errs"
)

// Requests to a watched route do not end with its first good response, and each other response is a
// failure, also one that the route is missing.
func TestWatched(t *testing.T) {
	s := spec(gateway(t, func(_ string, n int64) int {
		if n%3 == 0 {
			return http.StatusNotFound
		}
		return http.StatusOK
	}), "a.example")
	s.Routes[0].Watched, s.WatchEvery, s.After = true, time.Millisecond, 0
	seen := await(t, s, func(s []routeprobe.Seen) bool { return s[0].Statuses["200"] > 20 })[0]
	if seen.Failed != seen.Statuses["404"] || seen.Failed == 0 {
		t.Errorf("%+v", seen)
	}
	s.WatchEvery = 0
	if err := s.Validate(); errs.Code(err) != errs.CodeUsage {
		t.Errorf("without an interval: %v", err)
	}
}

// Over TLS the name in the handshake is the route's host, whose certificate must be valid.
func TestTLS(t *testing.T) {
	names := make(chan string, 1000)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { names <- r.TLS.ServerName + " " + r.Host }))
	server.TLS = &tls.Config{}
	server.StartTLS()
	defer server.Close()
	root := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	s := spec(strings.TrimPrefix(server.URL, "https://"), "example.com", "other.test") // the certificate is for the first
	s.RootCA = root
	seen := await(t, s, func(s []routeprobe.Seen) bool { return s[0].GoodNS != 0 && s[1].Statuses["error"] > 0 })
	if seen[0].Failed > 0 || !strings.Contains(seen[1].Error, "certificate") || seen[1].GoodNS != 0 {
		t.Errorf("%+v", seen)
	}
	if name := <-names; name != "example.com example.com" {
		t.Errorf("asked for %q", name)
	}
	s.RootCA = "none"
	if err := s.Validate(); errs.Code(err) != errs.CodeUsage {
		t.Errorf("a root that is none: %v", err)
	}
}
