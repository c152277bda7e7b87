package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	//lint:ignore SA1019 client-go's SPDY makes connections of this one
	"k8s.io/apimachinery/pkg/util/httpstream"
	//lint:ignore SA1019 client-go's SPDY makes connections of this one
	httpspdy "k8s.io/apimachinery/pkg/util/httpstream/spdy"
	constants "k8s.io/apimachinery/pkg/util/portforward"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/client-go/transport/websocket"
	streaming "k8s.io/streaming/pkg/httpstream"
)

const (
	// upgradeTime bounds an upgrade, and so how long a dead API server can block a
	// goroutine.
	upgradeTime = 30 * time.Second
	// closeTime bounds sending the close of a connection.
	closeTime = 2 * time.Second
)

// tunnel is one upgraded connection to one pod.
type tunnel struct {
	ready chan struct{} // closed when conn or err is set
	conn  httpstream.Connection
	raw   io.Closer // carries conn; closing it ends everything on conn. May be nil
	err   error

	mu   sync.Mutex
	next int // request ID
}

// broken reports whether a tunnel is unusable. A tunnel still being made is not broken.
func (t *tunnel) broken() bool {
	select {
	case <-t.ready:
	default:
		return false
	}
	if t.err != nil {
		return true
	}
	select {
	case <-t.conn.CloseChan():
		return true
	default:
		return false
	}
}

// hangUp ends a finished tunnel. If the API server does not read the close within
// closeTime, hangUp cuts the connection.
func (t *tunnel) hangUp() error {
	if t.conn == nil {
		return nil
	}
	said := make(chan error, 1)
	go func() { said <- t.conn.Close() }() // ends with the connection at the latest
	timer := time.NewTimer(closeTime)
	defer timer.Stop()
	select {
	case err := <-said:
		return err
	case <-timer.C:
	}
	err := fmt.Errorf("the API server did not close a port-forward within %v", closeTime)
	if t.raw != nil {
		go t.raw.Close() // it may block as well
	}
	return err
}

// end ends a tunnel. If the tunnel is not finished within closeTime, its maker ends it.
func (t *tunnel) end() error {
	timer := time.NewTimer(closeTime)
	defer timer.Stop()
	select {
	case <-t.ready:
		return t.hangUp()
	case <-timer.C:
		return fmt.Errorf("the API server did not respond to the close of a port-forward for %v", closeTime)
	}
}

// dial is open bounded by ctx; a connection that is made later is closed. It calls lost
// on a failure.
func (t *tunnel) dial(ctx context.Context, pod string, port int, lost func()) (net.Conn, error) {
	type result struct {
		conn net.Conn
		err  error
	}
	made := make(chan result)
	go func() { // ends within half a minute; see CreateStream
		conn, err := t.open(pod, port)
		if err != nil {
			lost()
		}
		select {
		case made <- result{conn, err}:
		case <-ctx.Done():
			if conn != nil {
				conn.Close()
			}
		}
	}()
	select {
	case r := <-made:
		return r.conn, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// open connects to a port: an error stream and a data stream with the same request ID.
func (t *tunnel) open(pod string, port int) (net.Conn, error) {
	t.mu.Lock()
	id := t.next
	t.next++
	t.mu.Unlock()
	headers := http.Header{}
	headers.Set(corev1.StreamType, corev1.StreamTypeError)
	headers.Set(corev1.PortHeader, strconv.Itoa(port))
	headers.Set(corev1.PortForwardRequestIDHeader, strconv.Itoa(id))
	errorStream, err := t.conn.CreateStream(headers)
	if err != nil {
		return nil, err
	}
	errorStream.Close() // nothing is sent on it
	headers.Set(corev1.StreamType, corev1.StreamTypeData)
	dataStream, err := t.conn.CreateStream(headers)
	if err != nil {
		errorStream.Reset()
		t.conn.RemoveStreams(errorStream)
		return nil, err
	}
	return newStreamConn(t.conn, dataStream, errorStream, podAddr{pod, port}), nil
}

// upgrade opens a port-forward connection over WebSocket, or over SPDY if the server or
// a proxy does not support WebSocket. For WebSocket it also returns the underlying
// connection, and respects ctx. SPDY respects ctx only while dialling, but is tried
// only with a server that has just answered.
func upgrade(ctx context.Context, config *rest.Config, namespace, pod string) (httpstream.Connection, io.Closer, error) {
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, nil, err
	}
	target := *base
	target.Path = strings.TrimSuffix(base.Path, "/") + "/api/v1/namespaces/" + url.PathEscape(namespace) + "/pods/" + url.PathEscape(pod) + "/portforward"
	conn, raw, protocol, err := overWebSocket(ctx, config, &target)
	if streaming.IsUpgradeFailure(err) || streaming.IsHTTPSProxyError(err) { // from the package whose errors client-go returns
		raw = nil
		conn, protocol, err = overSPDY(ctx, config, &target)
	}
	if err != nil {
		return nil, nil, err
	}
	if protocol != portforward.PortForwardProtocolV1Name {
		conn.Close()
		return nil, nil, fmt.Errorf("the server speaks port-forward protocol %q, not %q", protocol, portforward.PortForwardProtocolV1Name)
	}
	return conn, raw, nil
}

// overWebSocket is [portforward.NewSPDYOverWebsocketDialer] with a context.
func overWebSocket(ctx context.Context, config *rest.Config, target *url.URL) (httpstream.Connection, io.Closer, string, error) {
	transport, holder, err := websocket.RoundTripperFor(config)
	if err != nil {
		return nil, nil, "", err
	}
	// The handshake respects deadlines but not cancellation: close its connection.
	kept := func() bool { return true }
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(got httptrace.GotConnInfo) {
			kept = context.AfterFunc(ctx, func() { got.Conn.Close() })
		},
	}), http.MethodGet, target.String(), nil)
	if err != nil {
		return nil, nil, "", err
	}
	defer func() { kept() }()
	conn, err := websocket.Negotiate(transport, holder, req, constants.WebsocketsSPDYTunnelingPrefix+portforward.PortForwardProtocolV1Name)
	if err != nil {
		return nil, nil, "", err
	}
	if conn == nil {
		return nil, nil, "", errors.New("the server did not switch to WebSocket")
	}
	raw := portforward.NewTunnelingConnection("client", conn)
	upgraded, err := httpspdy.NewClientConnectionWithPings(raw, portforward.PingPeriod)
	if err != nil {
		return nil, nil, "", errors.Join(err, raw.Close())
	}
	return upgraded, raw, strings.TrimPrefix(conn.Subprotocol(), constants.WebsocketsSPDYTunnelingPrefix), nil
}

func overSPDY(ctx context.Context, config *rest.Config, target *url.URL) (httpstream.Connection, string, error) {
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return nil, "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target.String(), nil)
	if err != nil {
		return nil, "", err
	}
	return spdy.Negotiate(upgrader, &http.Client{Transport: transport}, req, portforward.PortForwardProtocolV1Name)
}
