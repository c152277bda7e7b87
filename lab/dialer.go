package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	//lint:ignore SA1019 client-go's dialer makes connections of this one
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
)

// Dialer connects to servers that listen on 127.0.0.1 inside pods, through
// the API server's port-forward. It opens no listening socket: each dialled
// connection is a pair of streams on one upgraded connection per pod, which
// is kept until it breaks or the Dialer is closed.
type Dialer struct {
	config *rest.Config

	mu     sync.Mutex
	tunnel map[string]*tunnel // by namespace/pod
	closed bool
}

// tunnel is one upgraded connection to one pod.
type tunnel struct {
	ready chan struct{} // closed when conn or err is set
	conn  httpstream.Connection
	err   error

	mu   sync.Mutex
	next int // request ID
}

// NewDialer returns a Dialer that uses the cluster of config.
func NewDialer(config *rest.Config) *Dialer {
	config = rest.CopyConfig(config)
	// The upgraded connection lives as long as it is used.
	config.Timeout = 0
	return &Dialer{config: config, tunnel: map[string]*tunnel{}}
}

// DialPod connects to 127.0.0.1:port inside the pod. The context bounds the
// dial alone. Whether anything listens there shows only at the first read,
// as the port-forward protocol reports refusals late; the error then names
// the pod and the port.
func (d *Dialer) DialPod(ctx context.Context, namespace, pod string, port int) (net.Conn, error) {
	key := namespace + "/" + pod
	for attempt := 0; ; attempt++ {
		t, fresh, err := d.tunnelTo(ctx, namespace, pod)
		if err != nil {
			return nil, fmt.Errorf("port-forward to pod %s: %w", key, err)
		}
		conn, err := t.open(key, port)
		if err == nil {
			return conn, nil
		}
		// A kept connection may have died with its API server or kubelet.
		d.drop(key, t)
		if fresh || attempt > 0 {
			return nil, fmt.Errorf("port-forward to pod %s port %d: %w", key, port, err)
		}
	}
}

// Transport returns an HTTP transport whose connections all go to the one
// port of the one pod, whatever host a request names.
func (d *Dialer) Transport(namespace, pod string, port int) *http.Transport {
	return &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return d.DialPod(ctx, namespace, pod, port)
		},
		MaxIdleConnsPerHost: 4,
		IdleConnTimeout:     2 * time.Minute,
		DisableCompression:  true,
	}
}

// InPod is the base address of requests by the clients of a Dialer, which
// choose the pod and the port themselves. Servers of our own answer to no
// other name.
const InPod = "http://127.0.0.1"

// Client returns an HTTP client for one port of one pod, whatever host a
// request names (see [InPod]).
func (d *Dialer) Client(namespace, pod string, port int) *http.Client {
	return &http.Client{Transport: d.Transport(namespace, pod, port)}
}

// startTime is how long a container that runs may take until its server
// listens.
const startTime = 15 * time.Second

// refusalTime is how long a connection that brought nothing more may take to
// say why. The node says it before it ends the connection: what is waited for
// is this process, which may be kept from reading.
const refusalTime = 5 * time.Second

// Role returns a client as [Dialer.Client] does, for a server of our own that
// is expected to be there: where nothing listens yet, a request is made again
// for some seconds. It is none that was served already, since nobody took it.
func (d *Dialer) Role(namespace, pod string, port int) *http.Client {
	return &http.Client{Transport: patient{next: d.Transport(namespace, pod, port), wait: 100 * time.Millisecond, limit: startTime}}
}

// patient makes requests again that nobody was there to take.
type patient struct {
	next        http.RoundTripper
	wait, limit time.Duration
}

func (p patient) RoundTrip(r *http.Request) (*http.Response, error) {
	for begin := time.Now(); ; {
		answer, err := p.next.RoundTrip(r)
		if err == nil || !refused(err) || time.Since(begin) >= p.limit || r.Body != nil && r.Body != http.NoBody && r.GetBody == nil {
			return answer, err
		}
		timer := time.NewTimer(p.wait)
		select {
		case <-r.Context().Done():
			timer.Stop()
			return nil, err
		case <-timer.C:
		}
		again := r.Clone(r.Context())
		if r.GetBody != nil {
			if again.Body, err = r.GetBody(); err != nil {
				return nil, err
			}
		}
		r = again
	}
}

// refused says whether a connection through the port-forward found nobody
// listening; the node tells so in words only.
func refused(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || strings.Contains(err.Error(), "connection refused")
}

// CloseIdleConnections is what [http.Client.CloseIdleConnections] looks for.
func (p patient) CloseIdleConnections() {
	if c, ok := p.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// Close ends every connection that the Dialer made.
func (d *Dialer) Close() error {
	d.mu.Lock()
	tunnels := d.tunnel
	d.tunnel, d.closed = nil, true
	d.mu.Unlock()
	var first error
	for _, t := range tunnels {
		<-t.ready
		if t.conn != nil {
			if err := t.conn.Close(); err != nil && first == nil {
				first = err
			}
		}
	}
	return first
}

func (d *Dialer) drop(key string, t *tunnel) {
	d.mu.Lock()
	if d.tunnel[key] == t {
		delete(d.tunnel, key)
	}
	d.mu.Unlock()
	if t.conn != nil {
		t.conn.Close()
	}
}

// tunnelTo returns the kept connection to a pod, or makes it; fresh tells
// whether this call made it.
func (d *Dialer) tunnelTo(ctx context.Context, namespace, pod string) (t *tunnel, fresh bool, err error) {
	key := namespace + "/" + pod
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil, false, net.ErrClosed
	}
	t = d.tunnel[key]
	if t != nil && t.broken() {
		t = nil
	}
	if t == nil {
		t, fresh = &tunnel{ready: make(chan struct{})}, true
		d.tunnel[key] = t
		// Upgrading takes no context; this goroutine ends with the upgrade,
		// which the transport's own time limits bound.
		go func() {
			t.conn, t.err = d.upgrade(namespace, pod)
			close(t.ready)
			if t.err != nil {
				d.drop(key, t)
			}
		}()
	}
	d.mu.Unlock()
	select {
	case <-t.ready:
		return t, fresh, t.err
	case <-ctx.Done():
		return nil, fresh, ctx.Err()
	}
}

// upgrade asks the API server for a port-forward connection, by WebSocket
// first, by SPDY where a server or a proxy before it knows no better.
func (d *Dialer) upgrade(namespace, pod string) (httpstream.Connection, error) {
	base, _, err := rest.DefaultServerUrlFor(d.config)
	if err != nil {
		return nil, err
	}
	target := *base
	target.Path = strings.TrimSuffix(base.Path, "/") + "/api/v1/namespaces/" + url.PathEscape(namespace) + "/pods/" + url.PathEscape(pod) + "/portforward"
	transport, upgrader, err := spdy.RoundTripperFor(d.config)
	if err != nil {
		return nil, err
	}
	overSPDY := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, &target)
	overWebSocket, err := portforward.NewSPDYOverWebsocketDialer(&target, d.config)
	if err != nil {
		return nil, err
	}
	dialer := portforward.NewFallbackDialer(overWebSocket, overSPDY, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	conn, protocol, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
	if err != nil {
		return nil, err
	}
	if protocol != portforward.PortForwardProtocolV1Name {
		conn.Close()
		return nil, fmt.Errorf("the server speaks port-forward protocol %q, not %q", protocol, portforward.PortForwardProtocolV1Name)
	}
	return conn, nil
}

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

// open makes one connection to a port: an error stream and a data stream
// with the same request ID.
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

// podAddr is the address of a port inside a pod.
type podAddr struct {
	pod  string
	port int
}

func (podAddr) Network() string  { return "pod" }
func (a podAddr) String() string { return a.pod + ":" + strconv.Itoa(a.port) }

// streamConn is a pair of port-forward streams as a net.Conn. An in-memory
// pipe between the caller and the streams gives it deadlines, which the
// streams lack.
type streamConn struct {
	net.Conn // the caller's end of the pipe
	addr     podAddr

	mu     sync.Mutex
	remote error // what the error stream said
	close  func()
}

func newStreamConn(conn httpstream.Connection, data, errorStream httpstream.Stream, addr podAddr) *streamConn {
	ours, theirs := net.Pipe()
	c := &streamConn{Conn: ours, addr: addr}
	c.close = sync.OnceFunc(func() {
		ours.Close()
		theirs.Close()
		data.Reset()
		errorStream.Reset()
		conn.RemoveStreams(data, errorStream)
	})
	told := make(chan struct{})
	go func() { // ends with the error stream
		defer close(told)
		message, err := io.ReadAll(errorStream)
		if err == nil && len(message) > 0 {
			c.mu.Lock()
			c.remote = fmt.Errorf("port-forward to %s: %s", addr, message)
			c.mu.Unlock()
			c.close()
		}
	}()
	go func() { // pod to caller; ends with the data stream or the pipe
		io.Copy(theirs, data)
		select { // a refusal arrives on the error stream at about the same time
		case <-told:
		case <-time.After(refusalTime):
		}
		theirs.Close()
	}()
	go func() { // caller to pod; ends with the pipe or the data stream
		io.Copy(data, theirs)
		data.Close()
	}()
	return c
}

func (c *streamConn) LocalAddr() net.Addr  { return c.addr }
func (c *streamConn) RemoteAddr() net.Addr { return c.addr }

// Read names the pod's refusal where there was one.
func (c *streamConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	return n, c.explain(err)
}

// Write names the pod's refusal where there was one.
func (c *streamConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	return n, c.explain(err)
}

func (c *streamConn) explain(err error) error {
	if err == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.remote != nil && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe)) {
		return c.remote
	}
	return err
}

func (c *streamConn) Close() error {
	c.close()
	return nil
}
