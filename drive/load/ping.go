package load

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
)

// pinged is a client's HTTP/2 connection, above TLS, on which PINGs go out
// beside the frames of the library that writes to it. Libraries ignore answers
// to PINGs that are not theirs.
type pinged struct {
	net.Conn
	below *watched
	heard atomic.Int64 // bytes, in plain text

	mu    sync.Mutex // of writes
	place framePlace
}

func newPinged(conn net.Conn) *pinged {
	return &pinged{Conn: conn, below: watchedOf(conn), place: framePlace{skip: len(http2.ClientPreface)}}
}

// Read implements [net.Conn].
func (p *pinged) Read(b []byte) (int, error) {
	n, err := p.Conn.Read(b)
	p.heard.Add(int64(n))
	return n, err
}

// Write implements [net.Conn].
func (p *pinged) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, err := p.Conn.Write(b)
	p.place.advance(b[:n])
	return n, err
}

// pingFrame is a PING of ours.
var pingFrame = [...]byte{0, 0, 8, byte(http2.FramePing), 0, 0, 0, 0, 0, 'm', 'e', 's', 'h', 't', 'r', 'i', 'l'}

// ping sends a PING, and reports whether the peer's silence counts from now on. It does
// not while the library is in the middle of a frame. It does while a write is under way: a
// socket that takes no more tells as much as a PING.
func (p *pinged) ping() (asked bool) {
	if !p.mu.TryLock() {
		return true
	}
	defer p.mu.Unlock()
	if !p.place.between() {
		return false
	}
	_, _ = p.Conn.Write(pingFrame[:]) // an error shows when the library reads
	return true
}

// framePlace follows where in the frames of HTTP/2 a stream of bytes is.
type framePlace struct {
	skip   int  // bytes of the preface, or of a frame's payload, still to come
	got    int  // bytes of a frame's header
	length int  // of its payload, as far as is known
	begun  bool // the first frame's header is there; it is the library's SETTINGS (RFC 9113, 3.4)
	fields bool // in a block of header fields, which no other frame may interrupt
	kind   http2.FrameType
}

// frameHead is the size of a frame's header, in bytes.
const frameHead = 9

func (f *framePlace) advance(b []byte) {
	for len(b) > 0 {
		if f.skip > 0 {
			n := min(f.skip, len(b))
			f.skip -= n
			b = b[n:]
			continue
		}
		switch {
		case f.got < 3:
			f.length = f.length<<8 | int(b[0])
		case f.got == 3:
			f.kind = http2.FrameType(b[0])
		case f.got == 4 && (f.kind == http2.FrameHeaders || f.kind == http2.FrameContinuation):
			f.fields = http2.Flags(b[0])&http2.FlagHeadersEndHeaders == 0
		}
		b = b[1:]
		if f.got++; f.got == frameHead {
			f.skip, f.got, f.length, f.begun = f.length, 0, 0, true
		}
	}
}

// between reports whether another frame may come here.
func (f *framePlace) between() bool { return f.begun && f.skip == 0 && f.got == 0 && !f.fields }

// liveness judges whether the peer of a connection is there.
type liveness struct {
	conn  *pinged
	heard int64 // when it was last looked at
	asked bool  // by a PING since the peer last sent more than answers to it
	at    int64 // bytes heard when asked
	since time.Time
}

// look looks at a connection with a number of requests out, and returns
// whether its peer has left a PING unanswered for patience. While requests are
// out and nothing comes it asks once: servers that run gRPC close connections
// with more than two PINGs between their own frames of data.
func (v *liveness) look(conn *pinged, out int, now time.Time, patience time.Duration) (dead bool) {
	if conn == nil {
		return false
	}
	heard := conn.heard.Load()
	switch {
	case conn != v.conn:
		*v = liveness{conn: conn}
	case heard-v.at > int64(len(pingFrame)):
		v.asked = false
	}
	silent := heard == v.heard && out > 0
	v.heard = heard
	switch {
	case !silent:
	case !v.asked:
		v.asked, v.at, v.since = conn.ping(), heard, now
	case heard == v.at:
		return now.Sub(v.since) >= patience
	}
	return false
}

// longestPatience limits how long a PING may go unanswered, and how long a
// silence before it.
const longestPatience = time.Second

// patience is how long the peer of a multiplexed connection may be silent
// before it is asked, and how long it may then take to answer.
func (s *Spec) patience() time.Duration { return min(seconds(s.TimeoutS)/8, longestPatience) }

// watcher is a caller that can leave a connection whose peer has gone.
type watcher interface {
	// look is called every so often.
	look(now time.Time)
}

// watch has callers look at their connections until ctx ends.
func watch(ctx context.Context, w watcher, every time.Duration) {
	ticker := time.NewTicker(max(every, time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			w.look(time.Now())
		}
	}
}
