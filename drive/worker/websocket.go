package worker

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"

	"github.com/coder/websocket"
	"github.com/meshtrial/meshtrial/study/protocol"
)

func init() {
	servings[protocol.WebSocket] = serving{plain: (*Worker).webSocketServer, status: func(status int) string {
		if status == http.StatusOK {
			return protocol.Of(protocol.WebSocket).Success
		}
		return "error"
	}}
}

func (w *Worker) webSocketServer(l net.Listener) (server, error) {
	streams := newMessageStreams(w, w.counters.protocol(protocol.WebSocket))
	s := w.newHTTPServer(protocol.WebSocket, protocol.WebSocket, func(p *http.Protocols) { p.SetHTTP1(true) })
	s.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { webSocket(rw, r, streams) })
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) }
	out := httpServer(s, func() error { return s.Serve(l) })
	out.drain = func(ctx context.Context) error {
		return errors.Join(s.Shutdown(ctx), streams.drain(ctx)) // Shutdown ignores upgraded connections
	}
	out.end = func() {
		s.Close()
		streams.end()
	}
	return out, nil
}

// connKey is the key of a request's connection.
type connKey struct{}

// webSocket upgrades a request, and answers messages until the WebSocket ends.
func webSocket(rw http.ResponseWriter, r *http.Request, streams *messageStreams) {
	streams.open.Add(1)
	defer streams.open.Done()
	raw, _ := r.Context().Value(connKey{}).(net.Conn)
	conn, err := websocket.Accept(rw, r, &websocket.AcceptOptions{InsecureSkipVerify: true}) // any Origin
	if err != nil {
		streams.counted.answered(http.StatusBadRequest)
		return
	}
	defer conn.CloseNow()
	conn.SetReadLimit(streams.w.options.MaxBodyBytes)
	s := &messageStream{of: streams, header: headerOf(r)}
	defer context.AfterFunc(streams.now, func() { conn.CloseNow() })()
	defer context.AfterFunc(streams.leave, func() {
		s.finish()
		_ = conn.Close(websocket.StatusGoingAway, "") // the client may be gone
	})()
	// Waits end when the connection is closed; a context for each would cost more than a message.
	ctx := context.Background()
	body := heldBody{budget: &streams.w.bodies}
	defer body.release()
	for {
		kind, in, err := conn.Reader(ctx)
		if err != nil {
			return
		}
		current := streams.w.active.Load()
		var size int64
		if current.needBody {
			err = body.read(in, 0)
			size = int64(len(body.bytes))
		} else {
			size, err = io.Copy(io.Discard, in)
		}
		switch {
		case errors.Is(err, errBodies):
			streams.counted.answered(http.StatusServiceUnavailable)
			_ = conn.Close(websocket.StatusTryAgainLater, errBodies.Error())
			return
		case err != nil:
			return
		}
		status, err := s.answer(streams.now, current, body.bytes, size, func(reply []byte) error { return conn.Write(ctx, kind, reply) })
		switch {
		case errors.Is(err, errReset):
			resetConn(raw)
			return
		case err != nil:
			return
		case status != http.StatusOK:
			_ = conn.Close(websocket.StatusInternalError, http.StatusText(status))
			return
		}
	}
}
