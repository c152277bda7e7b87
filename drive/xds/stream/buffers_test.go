package stream_test

import (
	"encoding/binary"
	"io"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/net/http2"

	"github.com/meshtrial/meshtrial/drive/xds/stream"
	"github.com/meshtrial/meshtrial/testing/eventually"
	"github.com/meshtrial/meshtrial/testing/must"
)

// claim returns the prefix of a message of a size.
func claim(size uint32) []byte {
	b := make([]byte, 5)
	binary.BigEndian.PutUint32(b[1:], size)
	return b
}

// TestPrefixReservesNothing checks that the length in a prefix reserves no
// memory before the data arrives, with the prefix in one part or several.
func TestPrefixReservesNothing(t *testing.T) {
	o := options()
	o.MaxMessage = 256 << 20
	for _, parts := range [][][]byte{{claim(255 << 20)}, {claim(255 << 20), []byte("x")}, {claim(255 << 20)[:3], claim(255 << 20)[3:], []byte("xyz")}} {
		c, p, _ := dial(t, o)
		_, bad := open(t, c)
		_, good := open(t, c)
		go func() { _, _ = io.Copy(io.Discard, p.conn) }()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for _, part := range parts {
			must.OK(t, p.WriteData(1, false, part))
		}
		_ = p.WriteData(3, false, message("fine"))
		eventually.Holds(t, "the other stream", func() bool { got, _, _ := good.got(); return len(got) == 1 })
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 8<<20 {
			t.Errorf("%d bytes of a message had come, %d were allocated", len(parts), n)
		}
		if got, s, _ := bad.got(); len(got) != 0 || s != nil {
			t.Errorf("%q, %v", got, s)
		}
	}
}

// TestConnectionBound checks that the memory of a connection's incomplete
// messages is bounded. Only the stream that exceeds the bound ends, and a
// complete message releases its memory.
func TestConnectionBound(t *testing.T) {
	o := options() // twice 1 MiB and two windows of 64 KiB
	c, p, _ := dial(t, o)
	go func() { _, _ = io.Copy(io.Discard, p.conn) }()
	var takers []*taker
	for range 4 {
		_, k := open(t, c)
		takers = append(takers, k)
	}
	// A buffer for a message of 900 KiB is one of 1 MiB.
	const size = 900 << 10
	send := func(id uint32, n int) {
		for data := append(claim(size), strings.Repeat("x", n)...); len(data) > 0; {
			part := data[:min(len(data), 16<<10)]
			data = data[len(part):]
			must.OK(t, p.WriteData(id, false, part))
		}
	}
	for range 5 {
		send(7, size)
	}
	eventually.Holds(t, "whole messages one after another", func() bool { got, _, _ := takers[3].got(); return len(got) == 5 })
	for id := range uint32(3) {
		send(2*id+1, size-1)
	}
	eventually.Holds(t, "the third of them to end", func() bool { _, s, _ := takers[2].got(); return s != nil })
	if _, s, _ := takers[2].got(); s.Code != stream.Internal || !strings.Contains(s.Message, "under way on the connection") {
		t.Errorf("%v", s)
	}
	for id := range uint32(2) {
		must.OK(t, p.WriteData(2*id+1, false, []byte("x")))
	}
	for i, k := range takers[:2] {
		eventually.Holds(t, "the others", func() bool { got, _, _ := k.got(); return len(got) == 1 })
		if got, s, _ := k.got(); len(got[0]) != size || s != nil {
			t.Errorf("stream %d: %d bytes, %v", i, len(got[0]), s)
		}
	}
}

// TestPausedStreamIsBounded checks that a server that sends a paused stream
// more than its window is cut off.
func TestPausedStreamIsBounded(t *testing.T) {
	c, p, _ := dial(t, options())
	s, k := open(t, c)
	_, other := open(t, c)
	go func() { _, _ = io.Copy(io.Discard, p.conn) }()
	must.OK(t, c.Do(s.Pause))
	for range 5 {
		must.OK(t, p.WriteRawFrame(http2.FrameData, 0, 1, make([]byte, 16<<10)))
	}
	_ = p.WriteData(3, false, message("fine"))
	eventually.Holds(t, "the end of the stream", func() bool { _, status, _ := k.got(); return status != nil })
	if _, status, _ := k.got(); !strings.Contains(status.Message, "flow control") {
		t.Errorf("%v", status)
	}
	eventually.Holds(t, "the other stream", func() bool { got, _, _ := other.got(); return len(got) == 1 })
}

// TestTokenIsNotIndexed checks that a token is never added to the table with
// which HTTP/2 compresses headers (RFC 7541, 7.1.3), so that no intermediary
// keeps it.
func TestTokenIsNotIndexed(t *testing.T) {
	c, p, _ := dial(t, options())
	must.OK(t, c.Do(func() {
		must.OK(t, must.Err(c.Open("/s/M", []stream.Header{{Name: "authorization", Value: "Bearer secret", Sensitive: true}}, &taker{})))
	}))
	for {
		f, err := p.ReadFrame()
		must.OK(t, err)
		h, ok := f.(*http2.HeadersFrame)
		if !ok {
			continue
		}
		// "authorization" is entry 23 of the static table: a never-indexed
		// literal begins with 0001 and a prefix of 4 bits.
		block := h.HeaderBlockFragment()
		if !strings.Contains(string(block), "\x1f\x08") {
			t.Errorf("% x", block)
		}
		return
	}
}
