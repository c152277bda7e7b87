package stream_test

import (
	"bytes"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/meshtrial/meshtrial/drive/xds/stream"
	"github.com/meshtrial/meshtrial/testing/eventually"
	"github.com/meshtrial/meshtrial/testing/must"
)

// expecting returns a connection with two streams, the first of which is
// receiving a long message: 300,000 bytes, of which the first 100,000 have been
// read.
func expecting(t *testing.T, mayWait bool) (c *stream.Conn, p *peer, first *stream.Stream, long, other *taker, reads *atomic.Int64) {
	t.Helper()
	reads = new(atomic.Int64)
	o := options()
	o.Window = 1 << 20
	o.MayWait = func() bool { return mayWait }
	o.OnRead = func(int64) { reads.Add(1) }
	c, p, _ = dial(t, o)
	first, long = open(t, c)
	_, other = open(t, c)
	go func() { // what the client sends
		for {
			if _, err := p.ReadFrame(); err != nil {
				return
			}
		}
	}()
	p.headers(1, false, ":status", "200")
	p.headers(3, false, ":status", "200")
	p.send(1, append(claim(300_000), make([]byte, 100_000-5)...))
	settled(t, reads)
	return c, p, first, long, other, reads
}

// send sends bytes in frames of at most 16,000.
func (p *peer) send(id uint32, data []byte) {
	p.t.Helper()
	for len(data) > 0 {
		n := min(len(data), 16_000)
		must.OK(p.t, p.WriteData(id, false, data[:n]))
		data = data[n:]
	}
}

// settled waits until nothing has been read for some time, and returns the
// number of reads.
func settled(t *testing.T, reads *atomic.Int64) int64 {
	t.Helper()
	for last, quiet := int64(0), 0; ; {
		time.Sleep(50 * time.Millisecond)
		if now := reads.Load(); now != last || now == 0 {
			last, quiet = now, 0
		} else if quiet++; quiet == 3 { // a busy machine may skip one
			return now
		}
	}
}

// windows reports what the client returns to the windows.
func (p *peer) windows(given chan<- uint32) {
	for {
		f, err := p.ReadFrame()
		if err != nil {
			return
		}
		if u, ok := f.(*http2.WindowUpdateFrame); ok && u.StreamID != 0 {
			given <- u.Increment
		}
	}
}

func got(k *taker) int {
	messages, _, _ := k.got()
	return len(messages)
}

// If times do not matter, a connection wakes up only for the part of a message
// that is certain to come, however small its pieces. The message is handled
// when its last byte arrives.
func TestFewReadsOfLongMessages(t *testing.T) {
	c, p, _, long, _, reads := expecting(t, true)
	before := settled(t, reads)
	rest := make([]byte, 200_000+5)
	for len(rest) > 1 {
		n := min(len(rest)-1, 2000)
		p.send(1, rest[:n])
		rest = rest[n:]
		time.Sleep(time.Millisecond)
	}
	time.Sleep(50 * time.Millisecond)
	if got(long) != 0 {
		t.Error("the message came without its last byte")
	}
	// A hundred parts. Frame headers arrive with the bytes, so the last few
	// parts are read one after another.
	if n := reads.Load() - before; n > 20 {
		t.Errorf("%d reads for 200 KB in parts of 2 KB", n)
	}
	p.send(1, rest)
	eventually.Holds(t, "the whole message", func() bool { return got(long) == 1 })
	if c.Streams() != 2 {
		t.Error("a stream is gone")
	}
}

// If times matter, a message is handled immediately, whatever else is arriving.
func TestNoMessageWaits(t *testing.T) {
	_, p, _, long, other, _ := expecting(t, false)
	p.send(3, message("short"))
	eventually.Holds(t, "the short one", func() bool { return got(other) == 1 })
	if got(long) != 0 {
		t.Error("the long one is whole")
	}
}

// Data that will not come any more is not waited for.
func TestNothingIsExpectedOfAStreamThatEnded(t *testing.T) {
	c, p, first, long, other, _ := expecting(t, true)
	must.OK(t, c.Do(func() { first.Cancel("no longer") }))
	p.send(3, message("short"))
	eventually.Holds(t, "the short one", func() bool { return got(other) == 1 })
	if got(long) != 0 {
		t.Error("a cancelled stream got a message")
	}
}

// A server may end a stream in the middle of a message: the next ping at the
// latest reveals it.
func TestPingEndsWaiting(t *testing.T) {
	c, p, _, _, other, _ := expecting(t, true)
	must.OK(t, p.WriteRSTStream(1, http2.ErrCodeInternal))
	p.send(3, message("short"))
	if done, err := c.Ping(); !done || err != nil {
		t.Fatal(done, err)
	}
	eventually.Holds(t, "the short one", func() bool { return got(other) == 1 })
	if c.Streams() != 1 {
		t.Error("the stream that the server ended is there")
	}
}

// Data held back by a paused stream is not waited for when it resumes.
func TestNothingIsExpectedTwice(t *testing.T) {
	c, p, first, long, other, reads := expecting(t, true)
	must.OK(t, c.Do(first.Pause))
	p.send(1, make([]byte, 150_000))
	settled(t, reads)
	must.OK(t, c.Do(first.Resume))
	p.send(1, make([]byte, 50_005))
	eventually.Holds(t, "the long one", func() bool { return got(long) == 1 })
	p.send(3, message("short"))
	eventually.Holds(t, "the short one", func() bool { return got(other) == 1 })
}

// A server that waits for its window gets it in time, though the client waits
// for data within it.
func TestExpectingWithinTheWindow(t *testing.T) {
	for _, window := range []int{1 << 10, 64 << 10, 128 << 10, 1 << 20} {
		o := options()
		o.Window, o.Streams, o.MaxMessage = window, 1, 8<<20
		c, p, _ := dial(t, o)
		_, k := open(t, c)
		given := make(chan uint32, 10_000)
		go p.windows(given)
		p.headers(1, false, ":status", "200")
		data := message(string(bytes.Repeat([]byte("x"), 5<<20)))
		left := window
		for len(data) > 0 {
			for left == 0 || len(given) > 0 {
				select {
				case n := <-given:
					left += int(n)
				case <-time.After(time.Minute):
					t.Fatalf("window %d: nothing is given back with %d bytes to go", window, len(data))
				}
			}
			n := min(len(data), left, 16<<10)
			p.send(1, data[:n])
			data, left = data[n:], left-n
		}
		eventually.Holds(t, "the message", func() bool { return got(k) == 1 })
	}
}
