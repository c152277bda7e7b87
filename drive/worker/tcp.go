package worker

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/meshtrial/meshtrial/study/protocol"
)

func init() {
	servings[protocol.TCP] = serving{plain: (*Worker).tcpServer, secure: (*Worker).tcpsServer, status: func(status int) string {
		if status == http.StatusOK {
			return protocol.Of(protocol.TCP).Success
		}
		return "error"
	}}
}

// tcpReadBytes is the size of a connection's buffer, and of the longest request without
// a message size.
const tcpReadBytes = 16 << 10

// tcpEcho serves TCP echo. It owns the goroutines of its connections.
type tcpEcho struct {
	w        *Worker
	counted  *protocolCounters
	listener net.Listener
	ctx      context.Context // ends when connections must end
	cancel   context.CancelFunc

	mu       sync.Mutex
	conns    map[net.Conn]bool // true while a request is being served
	draining bool
	served   sync.WaitGroup
}

func (w *Worker) tcpServer(l net.Listener) (server, error) {
	ctx, cancel := context.WithCancel(context.Background())
	t := &tcpEcho{w: w, counted: w.counters.protocol(protocol.TCP), listener: l, ctx: ctx, cancel: cancel, conns: map[net.Conn]bool{}}
	return server{serve: t.serve, drain: t.drain, end: t.end}, nil
}

func (w *Worker) tcpsServer(l net.Listener) (server, error) {
	config, err := w.tlsConfig(protocol.TCP)
	if err != nil {
		return server{}, err
	}
	return w.tcpServer(tls.NewListener(l, config))
}

func (t *tcpEcho) serve() error {
	backoff := 5 * time.Millisecond
	for {
		conn, err := t.listener.Accept()
		if err != nil {
			// The same test as in net/http; out of file descriptors, for example.
			var temporary net.Error
			//lint:ignore SA1019 no other test exists
			if errors.As(err, &temporary) && temporary.Temporary() {
				select {
				case <-time.After(backoff):
					backoff = min(2*backoff, time.Second)
					continue
				case <-t.ctx.Done():
				}
			}
			return err
		}
		backoff = 5 * time.Millisecond
		t.mu.Lock()
		if t.draining {
			t.mu.Unlock()
			conn.Close()
			continue
		}
		t.conns[conn] = false
		t.served.Add(1)
		t.mu.Unlock()
		go func() {
			defer t.served.Done()
			t.serveConn(conn)
			t.mu.Lock()
			delete(t.conns, conn)
			t.mu.Unlock()
			conn.Close()
		}()
	}
}

func (t *tcpEcho) serveConn(conn net.Conn) {
	w := t.w
	if secure, ok := conn.(*tls.Conn); ok {
		ctx, cancel := context.WithTimeout(t.ctx, w.options.ReadTimeout)
		err := secure.HandshakeContext(ctx)
		cancel()
		if err != nil {
			return
		}
	}
	buffer := make([]byte, tcpReadBytes)
	var taken int64 // of the budget, for a buffer above tcpReadBytes
	defer func() { w.bodies.give(taken) }()
	size := int(w.active.Load().config.TCPMessageBytes)
	for {
		if conn.SetReadDeadline(time.Now().Add(w.options.IdleTimeout)) != nil || !t.mark(conn, false) {
			return
		}
		// Reading no further than the message leaves the next one to the next read.
		n, _ := conn.Read(buffer[:min(cmp.Or(size, tcpReadBytes), len(buffer))])
		if n == 0 {
			return
		}
		t.mark(conn, true)
		current := w.active.Load() // it may have changed while the connection was idle
		size = int(current.config.TCPMessageBytes)
		if extra := int64(size - len(buffer)); extra > 0 {
			if !w.bodies.take(extra) {
				t.counted.answered(http.StatusServiceUnavailable)
				return
			}
			taken += extra
			grown := make([]byte, size)
			copy(grown, buffer[:n])
			buffer = grown
		}
		if n < size {
			// The rest of the message must arrive within the read timeout.
			_ = conn.SetReadDeadline(time.Now().Add(w.options.ReadTimeout)) // if it fails, so does the read
			more, _ := io.ReadFull(conn, buffer[n:size])
			n += more
		}
		if n < size {
			t.counted.bytesIn.Add(int64(n))
			t.counted.answered(http.StatusBadRequest)
			return
		}
		x := Exchange{Protocol: t.counted.name, counted: t.counted, echo: true, Header: func(string) string { return "" }, Body: buffer[:n], BodyBytes: int64(n), Start: time.Now()}
		if err := current.serve(t.ctx, &x); err != nil || x.Status != http.StatusOK {
			if errors.Is(err, errReset) {
				resetConn(conn)
			}
			return
		}
		if t.reply(conn, &x) != nil {
			return
		}
	}
}

// reply sends the answer, slowly if so configured.
func (t *tcpEcho) reply(conn net.Conn, x *Exchange) error {
	if x.slow > 0 {
		return t.w.trickle(t.ctx, x.Reply, x.slow, func(data []byte) error { return t.send(conn, data) })
	}
	return t.send(conn, x.Reply)
}

func (t *tcpEcho) send(conn net.Conn, data []byte) error {
	if err := conn.SetWriteDeadline(time.Now().Add(t.w.options.ReadTimeout)); err != nil {
		return err
	}
	_, err := conn.Write(data)
	return err
}

// mark records whether conn has a request in flight. It returns false if the connection
// must end instead of waiting for another request.
func (t *tcpEcho) mark(conn net.Conn, busy bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.conns[conn] = busy
	return busy || !t.draining
}

func (t *tcpEcho) drain(ctx context.Context) error {
	t.listener.Close()
	t.mu.Lock()
	t.draining = true
	for conn, busy := range t.conns {
		if !busy {
			// It waits for a request, which must no longer arrive.
			_ = conn.SetReadDeadline(time.Unix(1, 0))
		}
	}
	t.mu.Unlock()
	return drainOr(ctx, t.served.Wait, t.end)
}

func (t *tcpEcho) end() {
	t.cancel()
	t.listener.Close()
	t.mu.Lock()
	t.draining = true
	for conn := range t.conns {
		conn.Close()
	}
	t.mu.Unlock()
	t.served.Wait()
}
