package load

import (
	"bytes"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"pgregory.net/rapid"

	"github.com/meshtrial/meshtrial/testing/must"
)

// TestFramePlace checks that, however a client's bytes are cut, another frame may
// follow the end of one, but not within a block of header fields.
func TestFramePlace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		stream := bytes.NewBufferString(http2.ClientPreface)
		framer := http2.NewFramer(stream, nil)
		free := map[int]bool{}
		_ = framer.WriteSettings() // comes first (RFC 9113, 3.4)
		free[stream.Len()] = true
		for range rapid.IntRange(0, 8).Draw(t, "frames") {
			payload := rapid.SliceOfN(rapid.Byte(), 0, 600).Draw(t, "payload")
			switch rapid.IntRange(0, 3).Draw(t, "kind") {
			case 0:
				_ = framer.WriteSettings(http2.Setting{ID: http2.SettingEnablePush, Val: 0})
			case 1:
				_ = framer.WriteData(1, false, payload)
			case 2:
				_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: payload, EndHeaders: true})
			case 3:
				_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: payload})
				_ = framer.WriteContinuation(1, false, payload)
				_ = framer.WriteContinuation(1, true, payload)
			}
			free[stream.Len()] = true
		}
		place := framePlace{skip: len(http2.ClientPreface)}
		for b, at := stream.Bytes(), 0; at < len(b); {
			n := min(rapid.IntRange(1, 40).Draw(t, "piece"), len(b)-at)
			place.advance(b[at : at+n])
			if at += n; place.between() != free[at] {
				t.Fatalf("after %d of %d bytes: %v", at, len(b), place.between())
			}
		}
	})
}

// TestPingWaits checks that no PING is sent within a frame, and that a peer without a
// PING is not dead, however long it is silent.
func TestPingWaits(t *testing.T) {
	sent := &writeCounter{}
	conn := newPinged(&watched{Conn: sent})
	v := &liveness{}
	now := time.Unix(0, 0)
	look := func() bool {
		now = now.Add(time.Second)
		return v.look(conn, 1, now, time.Second)
	}
	half := pingFrame[:5]
	for _, piece := range [][]byte{[]byte(http2.ClientPreface), half} {
		must.OK(t, must.Err(conn.Write(piece)))
		before := sent.writes
		for range 3 {
			if dead := look(); dead || sent.writes != before {
				t.Fatalf("after %q: dead %v, %d PINGs", piece, dead, sent.writes-before)
			}
		}
	}
	must.OK(t, must.Err(conn.Write(pingFrame[5:])))
	before := sent.writes
	if look() || sent.writes != before+1 {
		t.Errorf("%d PINGs after the frame", sent.writes-before)
	}
	if !look() {
		t.Error("a peer that leaves a PING unanswered is taken to be alive")
	}
}

// writeCounter counts writes, and has nothing to read.
type writeCounter struct {
	net.Conn
	writes int
	bytes  []byte
}

func (c *writeCounter) Write(b []byte) (int, error) {
	c.writes++
	c.bytes = append(c.bytes, b...)
	return len(b), nil
}

func (c *writeCounter) Read([]byte) (int, error) { return 0, io.EOF }

// TestJoinsWrites checks which frames wait for others, and that none waits forever.
func TestJoinsWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := &writeCounter{}
		conn := newPinged(&watched{Conn: sent})
		var all bytes.Buffer // what the library has written
		framer := http2.NewFramer(io.MultiWriter(&all, conn), nil)
		must.OK(t, must.Err(io.WriteString(io.MultiWriter(&all, conn), http2.ClientPreface)))
		must.OK(t, framer.WriteSettings())
		headers := func(end, whole bool) func() error {
			return func() error {
				return framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte("x"), EndStream: end, EndHeaders: whole})
			}
		}
		data := func() error { return framer.WriteData(1, true, []byte("body")) }
		ack := func() error { return framer.WritePing(true, [8]byte{}) }
		writes := func() int {
			conn.mu.Lock()
			defer conn.mu.Unlock()
			return sent.writes
		}
		read := func() error { _, _ = conn.Read(nil); return nil }
		wait := func() error { time.Sleep(longestHeld); synctest.Wait(); return nil }
		write := func() error { // which is in progress when the time is over
			conn.mu.Lock()
			time.Sleep(longestHeld)
			conn.mu.Unlock()
			synctest.Wait()
			return nil
		}
		for _, step := range []struct {
			name   string
			do     func() error
			writes int
		}{
			{"headers", headers(false, true), 0},
			{"their body", data, 1},
			{"headers without a body", headers(true, true), 1},
			{"headers", headers(false, true), 0},
			{"those of another request", headers(false, true), 0},
			{"a reset", func() error { return framer.WriteRSTStream(1, http2.ErrCodeCancel) }, 1},
			{"half of the headers", headers(false, false), 1},
			{"the other half", func() error { return framer.WriteContinuation(1, true, nil) }, 0},
			{"a closed window", wait, 1},
			{"the body", data, 1},
			{"the answer to a PING", ack, 0},
			{"a request", headers(true, true), 1},
			{"the answer to a PING", ack, 0},
			{"nothing else to do", read, 1},
			{"a window", func() error { return framer.WriteWindowUpdate(0, 1) }, 0},
			{"and another", func() error { return framer.WriteWindowUpdate(1, 1) }, 0},
			{"nothing that follows", wait, 1},
			{"headers", headers(false, true), 0},
			{"a write at the end of their time", write, 1},
			{"nothing held", read, 0},
			{"nothing held", wait, 0},
			{"a PING", func() error { return framer.WritePing(false, [8]byte{}) }, 1},
		} {
			before := writes()
			must.OK(t, step.do())
			if n := writes() - before; n != step.writes {
				t.Errorf("%s: %d writes, want %d", step.name, n, step.writes)
			}
			if step.writes > 0 && !bytes.Equal(sent.bytes, all.Bytes()) {
				t.Fatalf("%s: the bytes differ", step.name)
			}
		}
	})
}

// TestLiveness checks that a peer that leaves a PING unanswered is dead, and that only
// one PING is sent until the peer sends data again.
func TestLiveness(t *testing.T) {
	sent := &writeCounter{}
	conn := newPinged(&watched{Conn: sent})
	conn.place = framePlace{begun: true}
	now := time.Unix(0, 0)
	v := &liveness{}
	for i, step := range []struct {
		hears int64 // bytes since the last look
		out   int
		pings int // in all
		dead  bool
	}{
		{100, 1, 0, false}, // the first look
		{0, 0, 0, false},   // silent, but nothing is in flight
		{9, 1, 0, false},
		{0, 1, 1, false},  // silent: PING sent
		{17, 1, 1, false}, // answered
		{0, 1, 1, false},  // silent again: no new PING
		{0, 1, 1, false},
		{30, 1, 1, false}, // data
		{0, 1, 2, false},  // PING sent
		{0, 0, 2, false},  // the request in flight has timed out
		{0, 1, 2, true},   // not answered
	} {
		conn.heard.Add(step.hears)
		now = now.Add(time.Second)
		if got := v.look(conn, step.out, now, time.Second); got != step.dead {
			t.Errorf("look %d: dead %v", i, got)
		}
		if sent.writes != step.pings {
			t.Errorf("look %d: %d PINGs sent, want %d", i, sent.writes, step.pings)
		}
	}
}
