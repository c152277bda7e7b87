package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	//lint:ignore SA1019 client-go's SPDY makes connections of this one
	"k8s.io/apimachinery/pkg/util/httpstream"
	//lint:ignore SA1019 client-go's SPDY makes connections of this one
	httpspdy "k8s.io/apimachinery/pkg/util/httpstream/spdy"
	"k8s.io/client-go/tools/portforward"

	"github.com/meshtrial/meshtrial/bench/internal/child"
	"github.com/meshtrial/meshtrial/drive/load/control"
)

// podsMode is the argument with which this program runs an API server that has every
// requested pod, each a generator, and forwards ports to them. It supports only SPDY, in
// plain text.
const podsMode = "pods"

// servePods prints its address and serves until in ends.
func servePods(ctx context.Context, in io.Reader, out io.Writer) error {
	return child.Serve(ctx, in, out, serveAPI)
}

// serveAPI serves until ctx ends.
func serveAPI(ctx context.Context, l net.Listener) error {
	inside := &forwarded{conns: make(chan net.Conn), done: ctx.Done()}
	handler := http.NewServeMux()
	handler.Handle("/", control.NewServer(ctx, "bench").Handler())
	handler.HandleFunc("GET "+streamPath, serveStream)
	role := &http.Server{Handler: handler}
	api := &http.Server{Handler: http.HandlerFunc(inside.forward)}
	context.AfterFunc(ctx, func() { _ = errors.Join(api.Close(), role.Close()) })
	go func() { _ = role.Serve(inside) }() // ends with ctx
	if err := api.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// streamPath is the path at which a pod serves its record, with streamLength bytes.
const (
	streamPath   = "/stream"
	streamLength = 64 << 20
)

func serveStream(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/octet-stream")
	part := make([]byte, 32<<10)
	for range streamLength / len(part) {
		if _, err := w.Write(part); err != nil {
			return // the reader detects it
		}
	}
}

// forwarded is a listener for forwarded connections.
type forwarded struct {
	conns chan net.Conn
	done  <-chan struct{}
}

func (f *forwarded) Accept() (net.Conn, error) {
	select {
	case conn := <-f.conns:
		return conn, nil
	case <-f.done:
		return nil, net.ErrClosed
	}
}

func (f *forwarded) Close() error   { return nil }
func (f *forwarded) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// forward answers a request for port-forwarding.
func (f *forwarded) forward(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost { // a WebSocket's
		http.Error(w, "by SPDY alone", http.StatusBadRequest)
		return
	}
	if _, err := httpstream.Handshake(r, w, []string{portforward.PortForwardProtocolV1Name}); err != nil {
		return // a response has been sent
	}
	conn := httpspdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, replied <-chan struct{}) error {
		go func() {
			select {
			case <-replied:
			case <-f.done:
				return
			}
			if s.Headers().Get(corev1.StreamType) == corev1.StreamTypeError {
				_ = s.Close() // there is no error to report
				return
			}
			select {
			case f.conns <- forwardedConn{s}:
			case <-f.done:
			}
		}()
		return nil
	})
	if conn == nil {
		return
	}
	select {
	case <-conn.CloseChan():
	case <-f.done:
		_ = conn.Close()
	}
}

// forwardedConn is a stream as a net.Conn, without deadlines.
type forwardedConn struct{ httpstream.Stream }

func (forwardedConn) LocalAddr() net.Addr              { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }
func (forwardedConn) RemoteAddr() net.Addr             { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }
func (forwardedConn) SetDeadline(time.Time) error      { return nil }
func (forwardedConn) SetReadDeadline(time.Time) error  { return nil }
func (forwardedConn) SetWriteDeadline(time.Time) error { return nil }
