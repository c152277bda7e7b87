package load

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/meshtrial/meshtrial/record/rate"
	"github.com/meshtrial/meshtrial/study/protocol"
)

// heard collects the values of two headers, as a server sees them.
type heard struct {
	mu   sync.Mutex
	ids  map[string]int
	keys map[string]int
}

func (h *heard) add(id, key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ids[id]++
	h.keys[key]++
}

func (h *heard) clear() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ids, h.keys = map[string]int{}, map[string]int{}
}

// TestRequestIDs checks that over every protocol each request carries its own
// id, as in the log, and one of the keys.
func TestRequestIDs(t *testing.T) {
	var seen heard
	handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		seen.add(r.Header.Get("X-Request-Id"), r.Header.Get("X-User"))
	})
	plain := plainServer(t, handler)
	secure := httptest.NewTLSServer(handler)
	defer secure.Close()
	calls := grpcServer(t, grpc.UnaryInterceptor(func(ctx context.Context, in any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		md, _ := metadata.FromIncomingContext(ctx)
		seen.add(strings.Join(md.Get("x-request-id"), "+"), strings.Join(md.Get("x-user"), "+"))
		return next(ctx, in)
	}))
	for _, tt := range []struct {
		name, url, protocol string
		threads             int
	}{
		{"http1", plain.URL, protocol.HTTP1, 1},
		{"http1, threads", plain.URL, protocol.HTTP1, 3},
		{"http1 tls", secure.URL, protocol.HTTP1, 1},
		{"http2", plain.URL, protocol.HTTP2, 1},
		{"grpc", calls, protocol.GRPC, 1},
	} {
		for _, asked := range []rate.Rate{400, rate.Max} {
			t.Run(fmt.Sprintf("%s at %v", tt.name, asked), func(t *testing.T) {
				seen.clear()
				spec := quick(tt.url)
				spec.Protocol, spec.Threads, spec.Rate, spec.DurationS, spec.PayloadBytes = tt.protocol, tt.threads, asked, 0.2, 10
				spec.RequestID, spec.HeaderKey = "mm-t1-c0", &HeaderKey{Name: "X-User", Values: 5}
				if strings.HasPrefix(tt.url, "https") {
					spec.TLS = &TLS{InsecureSkipVerify: true}
				}
				r := mustRun(t, spec)
				seen.mu.Lock()
				defer seen.mu.Unlock()
				if len(seen.keys) != 5 || seen.keys["key-0"] == 0 || seen.keys["key-4"] == 0 {
					t.Errorf("keys %v", seen.keys)
				}
				h := r.Requests.Header()
				for req := range r.Requests.All() {
					if seen.ids[h.ID(req)] != 1 {
						t.Fatalf("the server saw %s %d times, of %v", h.ID(req), seen.ids[h.ID(req)], seen.ids)
					}
					if want := map[bool]int{true: 0, false: 200}[tt.protocol == protocol.GRPC]; req.Outcome == OutcomeOK && req.Status != want {
						t.Fatalf("%+v: want status %d", req, want)
					}
				}
				if int64(len(seen.ids)) != h.Requests {
					t.Errorf("the server saw %d ids, the log has %d requests", len(seen.ids), h.Requests)
				}
			})
		}
	}
}

func TestRequestID(t *testing.T) {
	seen := map[string]int64{}
	for _, prefix := range []string{"mm-1", strings.Repeat("p", 15), strings.Repeat("p", 32), strings.Repeat("p", 33), strings.Repeat("p", 34), strings.Repeat("p", 35)} {
		for _, n := range []int64{0, 9, 10, 99, 100, 12345678901} {
			id := RequestID(prefix, n)
			if len(id) == uuidLength || !strings.HasPrefix(id, prefix+"-") || !strings.HasSuffix(id, fmt.Sprint(n)) {
				t.Errorf("%s and %d make %s", prefix, n, id)
			}
			if _, twice := seen[id]; twice {
				t.Errorf("%s stands for two requests", id)
			}
			seen[id] = n
		}
	}
}
