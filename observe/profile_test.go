package observe

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"net/http/pprof"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/meshtrial/meshtrial/testing/must"
)

// A running Go server's own profiles can be read.
func TestFetchProfile(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	server := httptest.NewServer(mux)
	defer server.Close()
	replica := Replica{Name: "self", HTTP: server.Client(), Base: server.URL}
	for _, kind := range []string{ProfileCPU, ProfileMutex, ProfileBlock, ProfileHeap} {
		data, err := FetchProfile(t.Context(), replica, kind, time.Second)
		must.OK(t, err)
		if _, err := profile.Parse(bytes.NewReader(data)); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
	if _, err := FetchProfile(t.Context(), replica, "none", 0); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("no such profile: %v", err)
	}
}
