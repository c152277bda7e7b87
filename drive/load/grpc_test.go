package load

import (
	"context"
	"net"
	"net/http"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/meshtrial/meshtrial/study/protocol"
	"github.com/meshtrial/meshtrial/testing/must"
)

// connKey is the key of a connection in a request's context.
type connKey struct{}

// TestGRPCKinds checks that a failure is classified by the origin of its
// status, not by its text.
func TestGRPCKinds(t *testing.T) {
	const misleading = "connection error: EOF, reset, closing"
	status := func(code codes.Code, early bool) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			prefix := ""
			w.Header().Set("Content-Type", "application/grpc")
			if early { // headers first, then trailers
				prefix = http.TrailerPrefix
				w.(http.Flusher).Flush()
			}
			w.Header().Set(prefix+"Grpc-Status", map[codes.Code]string{codes.Unavailable: "14", codes.DeadlineExceeded: "4"}[code])
			w.Header().Set(prefix+"Grpc-Message", misleading)
		}
	}
	hang := make(chan struct{})
	for _, tt := range []struct {
		name   string
		serve  http.HandlerFunc
		kind   failure
		status codes.Code
	}{
		{"unavailable", status(codes.Unavailable, false), failStatus, codes.Unavailable},
		{"unavailable after headers", status(codes.Unavailable, true), failStatus, codes.Unavailable},
		{"deadline exceeded", status(codes.DeadlineExceeded, false), failStatus, codes.DeadlineExceeded},
		{"deadline exceeded after headers", status(codes.DeadlineExceeded, true), failStatus, codes.DeadlineExceeded},
		{"no message", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Grpc-Status", "0") }, failProtocol, 0},
		{"no gRPC", func(w http.ResponseWriter, r *http.Request) { http.Error(w, misleading, http.StatusServiceUnavailable) }, failStatus, http.StatusServiceUnavailable},
		{"stream reset", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, failReset, 0},
		{"connection closed", func(_ http.ResponseWriter, r *http.Request) {
			_ = r.Context().Value(connKey{}).(*net.TCPConn).CloseWrite()
		}, failEOF, 0},
		{"connection reset", func(_ http.ResponseWriter, r *http.Request) {
			c := r.Context().Value(connKey{}).(*net.TCPConn)
			_ = c.SetLinger(0)
			c.Close()
		}, failReset, 0},
		{"silence", func(http.ResponseWriter, *http.Request) { <-hang }, failTimeout, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server := plainServer(t, tt.serve, func(s *http.Server) {
				s.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) }
			})
			timeout := 30 * time.Second
			if tt.kind == failTimeout {
				timeout = 50 * time.Millisecond
				defer close(hang)
			}
			addr := server.Listener.Addr().String()
			c := newGRPCCaller(&Spec{KeepAlive: true, TimeoutS: 30}, target{hostPort: addr, path: "/a.B/C"}, &dialer{addr: addr})
			defer c.close()
			must.OK(t, c.connect(t.Context()))
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			out := c.call(ctx, 0)
			if !out.failed || out.kind != tt.kind || out.status != int(tt.status) {
				t.Errorf("%s, status %d (%v)", kinds[out.kind], out.status, out.why)
			}
		})
	}
}

// A call that takes too long has timed out, even if it is the server that ends it first.
func TestGRPCTimeoutByServer(t *testing.T) {
	spec := quick(grpcServer(t, grpc.UnaryInterceptor(func(ctx context.Context, _ any, _ *grpc.UnaryServerInfo, _ grpc.UnaryHandler) (any, error) {
		<-ctx.Done()
		return nil, status.FromContextError(ctx.Err()).Err()
	})))
	spec.Protocol, spec.Rate, spec.TimeoutS = protocol.GRPC, 1000, 0.0205
	r := mustRun(t, spec)
	if w := r.Total(); w.Failed[FailTimeout] != w.Scheduled || len(r.Reasons[FailTimeout]) != 1 {
		t.Errorf("%+v, %q", w.Account, r.Reasons)
	}
}
