package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	//lint:ignore SA1019 client-go's SPDY makes connections of this one
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/internal/wake"
)

// Dialer connects to servers that listen on 127.0.0.1 inside pods, through the API
// server's port-forward. It opens no listening socket: each connection is a pair of
// streams on one upgraded connection per pod, which stays open until it breaks or the
// Dialer is closed.
type Dialer struct {
	config *rest.Config
	life   context.Context // ends with Close
	cancel context.CancelFunc

	mu     sync.Mutex
	tunnel map[string]*tunnel // by namespace/pod
	closed bool
}

// NewDialer returns a Dialer that uses the cluster of config.
func NewDialer(config *rest.Config) *Dialer {
	config = rest.CopyConfig(config)
	// No timeout: the upgraded connection lives as long as it is used.
	config.Timeout = 0
	life, cancel := context.WithCancel(context.Background())
	return &Dialer{config: config, life: life, cancel: cancel, tunnel: map[string]*tunnel{}}
}

// DialPod connects to 127.0.0.1:port inside the pod. The context bounds only the dial.
// The port-forward protocol reports refusals late, so the first read shows whether
// anything listens there; its error names the pod and the port.
func (d *Dialer) DialPod(ctx context.Context, namespace, pod string, port int) (net.Conn, error) {
	key := namespace + "/" + pod
	for attempt := 0; ; attempt++ {
		t, fresh, err := d.tunnelTo(ctx, namespace, pod)
		if err != nil {
			return nil, fmt.Errorf("port-forward to pod %s: %w", key, err)
		}
		// A kept connection may have died with its API server or kubelet.
		conn, err := t.dial(ctx, key, port, func() { d.drop(key, t) })
		if err == nil {
			return conn, nil
		}
		if fresh || attempt > 0 || ctx.Err() != nil {
			return nil, fmt.Errorf("port-forward to pod %s port %d: %w", key, port, err)
		}
	}
}

// Transport returns an HTTP transport that sends every request to one port of one pod,
// whatever host the request names.
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

// InPod is the base URL for requests through a Dialer's clients, which choose the pod
// and the port themselves. Our own servers accept no other host name.
const InPod = "http://127.0.0.1"

// Client returns an HTTP client for one port of one pod. The host in a request is
// ignored (see [InPod]).
func (d *Dialer) Client(namespace, pod string, port int) *http.Client {
	return &http.Client{Transport: d.Transport(namespace, pod, port)}
}

// startTime bounds the time between a container's start and its server listening.
const startTime = 15 * time.Second

// refusalTime bounds the wait for the reason why a connection was closed. The node sends
// it before it closes the connection, but this process may be slow to read it.
const refusalTime = 5 * time.Second

// Role is [Dialer.Client] for one of our own servers that may still be starting: it
// retries a request for some seconds while nothing listens. Such a request was never
// delivered.
func (d *Dialer) Role(namespace, pod string, port int) *http.Client {
	return &http.Client{Transport: patient{next: d.Transport(namespace, pod, port), wait: 100 * time.Millisecond, limit: startTime}}
}

// patient is a transport that retries requests while nothing listens.
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
		if wake.Pause(r.Context(), p.wait) != nil {
			return nil, err
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

// refused reports whether nothing listened at the end of a port-forward. The node
// reports that only as text, without a code.
func refused(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || strings.Contains(err.Error(), "connection refused")
}

// CloseIdleConnections implements the interface that [http.Client.CloseIdleConnections]
// looks for.
func (p patient) CloseIdleConnections() {
	if c, ok := p.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// Close ends all of the Dialer's connections. An unresponsive API server delays it by a
// few seconds at most; pending upgrades end within upgradeTime.
func (d *Dialer) Close() error {
	d.mu.Lock()
	tunnels := d.tunnel
	d.tunnel, d.closed = nil, true
	d.mu.Unlock()
	d.cancel()
	var ending errgroup.Group
	for _, t := range tunnels {
		ending.Go(t.end)
	}
	return ending.Wait()
}

// HangUp ends the connection to a pod, if any, and all requests on it.
func (d *Dialer) HangUp(namespace, pod string) {
	key := namespace + "/" + pod
	d.mu.Lock()
	t := d.tunnel[key]
	d.mu.Unlock()
	if t == nil {
		return
	}
	select {
	case <-t.ready:
		d.drop(key, t)
	default: // still being made, which ends within upgradeTime
	}
}

// drop removes a finished tunnel and ends it.
func (d *Dialer) drop(key string, t *tunnel) {
	d.mu.Lock()
	if d.tunnel[key] == t {
		delete(d.tunnel, key)
	}
	d.mu.Unlock()
	go t.hangUp() // it may take closeTime
}

// tunnelTo returns the existing connection to a pod, or makes one; fresh reports whether
// this call made it.
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
		made := &tunnel{ready: make(chan struct{})}
		t, fresh = made, true
		d.tunnel[key] = made
		// The connection is shared, so only the Dialer's context or a deadline ends the
		// upgrade, not a caller's context.
		go func() {
			limited, cancel := context.WithTimeout(d.life, upgradeTime)
			defer cancel()
			made.conn, made.raw, made.err = upgrade(limited, d.config, namespace, pod)
			close(made.ready)
			if made.err != nil || d.life.Err() != nil {
				d.drop(key, made)
			}
		}()
	}
	d.mu.Unlock()
	select {
	case <-t.ready:
		return t, fresh, t.err
	case <-d.life.Done():
		return nil, fresh, net.ErrClosed
	case <-ctx.Done():
		return nil, fresh, ctx.Err()
	}
}

// podAddr is the address of a port inside a pod.
type podAddr struct {
	pod  string
	port int
}

func (podAddr) Network() string  { return "pod" }
func (a podAddr) String() string { return a.pod + ":" + strconv.Itoa(a.port) }

// streamConn presents a pair of port-forward streams as a net.Conn. The streams lack
// deadlines, so an in-memory pipe between them and the caller provides these.
type streamConn struct {
	net.Conn // the caller's end of the pipe
	addr     podAddr

	mu     sync.Mutex
	remote error // what the error stream reported
	close  func()
}

func newStreamConn(conn httpstream.Connection, data, errorStream httpstream.Stream, addr podAddr) *streamConn {
	ours, theirs := net.Pipe()
	c := &streamConn{Conn: ours, addr: addr}
	c.close = sync.OnceFunc(func() {
		ours.Close()
		theirs.Close()
		go func() { // ends with the connection, at the latest when that accepts no more data
			data.Reset()
			errorStream.Reset()
			conn.RemoveStreams(data, errorStream)
		}()
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

// Read reports the pod's refusal as its error, if there is one.
func (c *streamConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	return n, c.explain(err)
}

// Write reports the pod's refusal as its error, if there is one.
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
