package worker

import (
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
	servings[protocol.TCP] = serving{(*Worker).tcpServer, (*Worker).tcpsServer, tcpStatus, nil}
}

// tcpReadBytes is a connection's buffer, and the most that one read without
// a message size takes for a request.
const tcpReadBytes = 16 << 10

// tcpEcho serves TCP echo: it owns its connections' goroutines.
type tcpEcho struct {
	w        *Worker
	counted  *protocolCounters
	listener net.Listener
	ctx      context.Context // ends when connections must
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
			// Out of file descriptors: wait for some to be released.
			if isTemporary(err) {
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

// isTemporary is net/http's own test for an Accept that is worth repeating.
func isTemporary(err error) bool {
	var netError net.Error
	//lint:ignore SA1019 no other test exists
	return errors.As(err, &netError) && netError.Temporary()
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
	for {
		current := w.active.Load()
		size := int(current.config.TCPMessageBytes)
		if extra := int64(size - cap(buffer)); extra > 0 {
			if !w.bodies.take(extra) {
				t.counted.answered(http.StatusServiceUnavailable)
				return
			}
			taken += extra
			buffer = make([]byte, size)
		}
		n, ended, ok := t.readMessage(conn, buffer, size)
		if !ok {
			return
		}
		x := Exchange{Protocol: t.counted.name, counted: t.counted, echo: true, Header: noHeader, Body: buffer[:n], BodyBytes: int64(n), Start: time.Now()}
		if err := current.serve(t.ctx, &x); err != nil || x.Status != http.StatusOK {
			if errors.Is(err, errReset) {
				resetConn(conn)
			}
			return
		}
		if err := t.reply(conn, &x); err != nil || ended && x.slow == 0 {
			return
		}
	}
}

// readMessage reads a message of size bytes, or what arrives at once if size is
// 0, and says how long it is. ended says that nothing more will come; ok is
// false if there is no whole message.
func (t *tcpEcho) readMessage(conn net.Conn, buffer []byte, size int) (n int, ended, ok bool) {
	w := t.w
	if conn.SetReadDeadline(time.Now().Add(w.options.IdleTimeout)) != nil || !t.mark(conn, false) {
		return 0, false, false
	}
	limit := size
	if limit == 0 {
		limit = tcpReadBytes
	}
	n, err := conn.Read(buffer[:limit])
	if n > 0 && n < size {
		// The rest of a message that has begun must come within the
		// read timeout.
		if conn.SetReadDeadline(time.Now().Add(w.options.ReadTimeout)) != nil {
			return n, false, false
		}
		t.mark(conn, true)
		var more int
		more, err = io.ReadFull(conn, buffer[n:size])
		n += more
	}
	if n < size || n == 0 {
		if n > 0 {
			t.counted.bytesIn.Add(int64(n))
			t.counted.answered(http.StatusBadRequest)
		}
		return n, false, false
	}
	t.mark(conn, true)
	return n, err != nil, true
}

// reply sends the answer, slowly if that is the worker's behaviour.
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

// tcpStatus is what the counters of TCP call an HTTP status.
func tcpStatus(status int) string {
	if status == http.StatusOK {
		return protocol.Of(protocol.TCP).Success
	}
	return "error"
}

func noHeader(string) string { return "" }

// mark notes whether conn has a request under way. It returns false if the
// connection must end instead of waiting for another one.
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
			// It waits for a request, which must not come any more.
			_ = conn.SetReadDeadline(time.Unix(1, 0))
		}
	}
	t.mu.Unlock()
	done := make(chan struct{})
	go func() {
		t.served.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		t.end()
		<-done
		return ctx.Err()
	}
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
