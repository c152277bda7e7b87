package load

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"

	"github.com/meshtrial/meshtrial/internal/rawgrpc"
	"github.com/meshtrial/meshtrial/study/protocol"
	"github.com/meshtrial/meshtrial/testing/loopback"
)

// tcpServer accepts connections and handles each in its own goroutine until the
// test ends.
func tcpServer(t *testing.T, handle func(net.Conn)) string {
	t.Helper()
	l := loopback.Listen(t)
	var all sync.WaitGroup
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open[c] = true
			mu.Unlock()
			all.Go(func() {
				handle(c)
				c.Close()
				mu.Lock()
				delete(open, c)
				mu.Unlock()
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for c := range open {
			c.Close()
		}
		mu.Unlock()
		all.Wait()
	})
	return l.Addr().String()
}

// answering handles HTTP/1.1 by writing what answer returns for the n-th
// request of the server; "" closes the connection without an answer.
func answering(answer func(n int64) string) func(net.Conn) {
	var n atomic.Int64
	return func(c net.Conn) {
		r := bufio.NewReader(c)
		for {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, req.Body)
			text := answer(n.Add(1))
			if text == "" {
				return
			}
			if _, err := io.WriteString(c, text); err != nil || req.Close {
				return
			}
		}
	}
}

const okAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// okServer answers every request of HTTP/1.1.
func okServer(t *testing.T) string {
	return tcpServer(t, answering(func(int64) string { return okAnswer }))
}

// plainServer serves HTTP/1.1 and HTTP/2 without TLS.
func plainServer(t *testing.T, handler http.HandlerFunc, change ...func(*http.Server)) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	for _, f := range change {
		f(server.Config)
	}
	server.Start()
	t.Cleanup(server.Close)
	return server
}

// secured makes handle speak TLS.
func secured(handle func(net.Conn)) func(net.Conn) {
	lender := httptest.NewTLSServer(nil)
	config := &tls.Config{Certificates: lender.TLS.Certificates}
	lender.Close()
	return func(c net.Conn) {
		secure := tls.Server(c, config)
		handle(secure)
		secure.Close()
	}
}

// grpcServer answers each call with its own message, and returns its URL.
func grpcServer(t *testing.T, options ...grpc.ServerOption) string {
	t.Helper()
	g := grpc.NewServer(append(options, grpc.ForceServerCodecV2(rawgrpc.Codec{}))...)
	g.RegisterService(&grpc.ServiceDesc{ServiceName: protocol.GRPCService, HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{
		MethodName: protocol.GRPCMethod,
		Handler: func(_ any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
			var in rawgrpc.Message
			if err := decode(&in); err != nil {
				return nil, err
			}
			echo := func(context.Context, any) (any, error) { return &in, nil }
			if intercept == nil {
				return echo(ctx, nil)
			}
			return intercept(ctx, &in, &grpc.UnaryServerInfo{}, echo)
		},
	}}}, struct{}{})
	return "grpc://" + loopback.Serve(t, g.Serve, g.Stop)
}
