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
)

// Dialer connects to servers that listen on 127.0.0.1 inside pods, through
// the API server's port-forward. It opens no listening socket: each dialled
// connection is a pair of streams on one upgraded connection per pod, which
// is kept until it breaks or the Dialer is closed.
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
	// The upgraded connection lives as long as it is used.
	config.Timeout = 0
	life, cancel := context.WithCancel(context.Background())
	return &Dialer{config: config, life: life, cancel: cancel, tunnel: map[string]*tunnel{}}
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

// startTime bounds the time from a container's start until its server listens.
const startTime = 15 * time.Second

// refusalTime bounds the wait for the reason of a closed connection. The node sends it
// before it closes the connection, but this process may be slow to read it.
const refusalTime = 5 * time.Second

// Role is [Dialer.Client] for a server of our own that may still be starting: it retries
// a request for some seconds while nothing listens. Such a request has reached nobody.
func (d *Dialer) Role(namespace, pod string, port int) *http.Client {
	return &http.Client{Transport: patient{next: d.Transport(namespace, pod, port), wait: 100 * time.Millisecond, limit: startTime}}
}

// patient retries requests while nothing listens.
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

// refused reports whether nothing listened at the end of a port-forward. The node has
// no code for that, only words.
func refused(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || strings.Contains(err.Error(), "connection refused")
}

// CloseIdleConnections is what [http.Client.CloseIdleConnections] looks for.
func (p patient) CloseIdleConnections() {
	if c, ok := p.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// Close ends every connection of the Dialer. An API server that does not answer delays
// it by seconds at most; pending upgrades end within upgradeTime.
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

// HangUp ends the connection to a pod, if there is one, and all requests on it.
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
	default: // it is being made, within upgradeTime
	}
}

// drop removes a tunnel that is ready, and ends it.
func (d *Dialer) drop(key string, t *tunnel) {
	d.mu.Lock()
	if d.tunnel[key] == t {
		delete(d.tunnel, key)
	}
	d.mu.Unlock()
	go t.hangUp() // it may take closeTime
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
		made := &tunnel{ready: make(chan struct{})}
		t, fresh = made, true
		d.tunnel[key] = made
		// The connection is shared, so that no caller's context ends the upgrade, only
		// the Dialer's or a deadline.
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
		go func() { // ends with the connection, if that no longer takes anything
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

// Read returns the pod's refusal, if any.
func (c *streamConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	return n, c.explain(err)
}

// Write returns the pod's refusal, if any.
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
