package load

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/meshtrial/meshtrial/study/protocol"
	"github.com/meshtrial/meshtrial/testing/loopback"
	"github.com/meshtrial/meshtrial/testing/must"
)

// oneStream speaks HTTP/2 to clients that may have one stream at a time. It answers
// requests once release is closed, and then ends the first connection.
func oneStream(l net.Listener, release <-chan struct{}) {
	for first := true; ; first = false {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
				return
			}
			framer := http2.NewFramer(conn, conn)
			_ = framer.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 1})
			for {
				frame, err := framer.ReadFrame()
				if err != nil {
					return
				}
				switch f := frame.(type) {
				case *http2.SettingsFrame:
					if !f.IsAck() {
						_ = framer.WriteSettingsAck()
					}
				case *http2.HeadersFrame:
					<-release
					if first {
						_ = framer.WriteGoAway(f.StreamID, http2.ErrCodeNo, nil)
					}
					var block bytes.Buffer
					_ = hpack.NewEncoder(&block).WriteField(hpack.HeaderField{Name: ":status", Value: "200"})
					_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: f.StreamID, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: true})
				}
			}
		}()
	}
}

// A request that waits for a stream of a connection that the server ends has not been
// sent: it is sent on the next connection.
func TestHTTP2WaitsOnTheNext(t *testing.T) {
	l := loopback.Listen(t)
	release := make(chan struct{})
	go oneStream(l, release)
	addr := l.Addr().String()
	c := newHTTP2Caller(&Spec{KeepAlive: true}, target{hostPort: addr, path: "/"}, &dialer{addr: addr}).(*http2Caller)
	defer c.close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	must.OK(t, c.connect(ctx))
	state := func() http2.ClientConnState {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.conn.State()
	}
	until := func(what string, is func(http2.ClientConnState) bool) {
		t.Helper()
		for !is(state()) {
			select {
			case <-ctx.Done():
				t.Fatalf("%s: %+v", what, state())
			case <-time.After(time.Millisecond):
			}
		}
	}
	until("the server's settings", func(s http2.ClientConnState) bool { return s.MaxConcurrentStreams == 1 })
	done := make(chan outcome, 2)
	ask := func() { done <- c.call(ctx, 0) }
	go ask()
	until("a request on its way", func(s http2.ClientConnState) bool { return s.StreamsActive == 1 })
	go ask()
	until("one that waits", func(s http2.ClientConnState) bool { return s.StreamsPending == 1 })
	close(release)
	made := int64(0)
	for range 2 {
		out := <-done
		if out.failed || out.status != 200 {
			t.Errorf("%+v", out)
		}
		made += out.connections
	}
	if made != 1 {
		t.Errorf("%d connections made after the first", made)
	}
}

// A connection that its server ends before the first request is replaced.
func TestHTTP2ReplacesUnused(t *testing.T) {
	for _, secure := range []bool{false, true} {
		s := newTroubled(t, protocol.HTTP2, secure, fault{idle: 40 * time.Millisecond})
		d := &dialer{addr: s.addr}
		if secure {
			d.tls = &tls.Config{InsecureSkipVerify: true, NextProtos: s.tls.NextProtos}
		}
		c := newHTTP2Caller(&Spec{KeepAlive: true}, target{hostPort: s.addr, path: "/", tls: secure}, d).(*http2Caller)
		defer c.close()
		must.OK(t, c.connect(t.Context()))
		for !c.conn.State().Closed {
			time.Sleep(time.Millisecond)
		}
		if out := c.call(t.Context(), 0); out.failed || out.connections == 0 {
			t.Errorf("TLS %v: %+v", secure, out)
		}
	}
}

// A handshake that takes too long is a timeout, and so is that of the slot's next call.
func TestHandshakeTimesOut(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	defer silent.Close()
	addr := silent.Addr().String()
	s := slot{caller: newHTTP2Caller(&Spec{KeepAlive: true}, target{hostPort: addr, path: "/", tls: true},
		&dialer{addr: addr, tls: &tls.Config{InsecureSkipVerify: true}})}
	defer s.caller.close()
	for range 2 {
		out := s.call(t.Context(), time.Now().Add(20*time.Millisecond), 0)
		if out.kind != failTimeout || !errors.Is(out.why, context.DeadlineExceeded) {
			t.Errorf("%+v", out)
		}
	}
}
