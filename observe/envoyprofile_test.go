package observe_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/testing/must"
)

// admin responds like the admin interface of upstream's build of Envoy 1.40.0.
func admin(t *testing.T, asked *[]string) observe.Replica {
	t.Helper()
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	must.OK(t, must.Err(w.Write([]byte("a profile"))))
	must.OK(t, w.Close())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*asked = append(*asked, r.Method+" "+r.URL.String())
		switch r.URL.String() {
		case "/heap_dump", "/allocprofiler?enable=n":
			_, _ = w.Write(packed.Bytes())
		case "/peak_heap_dump":
			_, _ = io.WriteString(w, "Heap dump not supported on this platform")
		case "/allocprofiler?enable=y":
			if r.Method != http.MethodPost {
				http.Error(w, "Method GET not allowed, POST required.", http.StatusMethodNotAllowed)
				return
			}
			_, _ = io.WriteString(w, "OK\n")
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return observe.Replica{Name: "envoy", HTTP: server.Client(), Base: server.URL}
}

func TestFetchEnvoyProfile(t *testing.T) {
	for kind, test := range map[string]struct {
		asked []string
		says  string // in the error
	}{
		observe.ProfileHeap:     {asked: []string{"GET /heap_dump"}},
		observe.ProfileAlloc:    {asked: []string{"POST /allocprofiler?enable=y", "POST /allocprofiler?enable=n"}},
		observe.ProfilePeakHeap: {asked: []string{"GET /peak_heap_dump"}, says: ": Heap dump not supported"},
	} {
		t.Run(kind, func(t *testing.T) {
			var asked []string
			data, err := observe.FetchEnvoyProfile(t.Context(), admin(t, &asked), kind, 10*time.Millisecond)
			if test.says != "" {
				if !errors.Is(err, observe.ErrNoProfiler) || !strings.Contains(err.Error(), test.says) || errs.Hint(err) == "" || !slices.Equal(asked, test.asked) {
					t.Fatalf("%v, hint %q, asked %q", err, errs.Hint(err), asked)
				}
				return
			}
			if err != nil || len(data) == 0 || !slices.Equal(asked, test.asked) {
				t.Fatalf("%d bytes, %v, asked %q", len(data), err, asked)
			}
		})
	}
	var asked []string
	for _, kind := range []string{"mutex", observe.ProfileCPU} {
		if _, err := observe.FetchEnvoyProfile(t.Context(), admin(t, &asked), kind, 0); errs.Code(err) != errs.CodeUsage || len(asked) > 0 {
			t.Errorf("a kind that there is not: %v, asked %q", err, asked)
		}
	}
}
