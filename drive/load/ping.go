package load

import (
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
)

// pinged is a client's HTTP/2 connection, above TLS. It inserts PINGs between the frames
// that a library writes. Libraries ignore answers to PINGs that they did not send.
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

// pingFrame is the PING frame to send.
var pingFrame = [...]byte{0, 0, 8, byte(http2.FramePing), 0, 0, 0, 0, 0, 'm', 'e', 's', 'h', 't', 'r', 'i', 'l'}

// ping sends a PING and reports whether the peer's silence counts from now on. It does not
// count in the middle of a frame of the library. It counts during a write, because a
// blocked socket is as conclusive as a PING.
func (p *pinged) ping() (asked bool) {
	if !p.mu.TryLock() {
		return true
	}
	defer p.mu.Unlock()
	if !p.place.between() {
		return false
	}
	_, _ = p.Conn.Write(pingFrame[:]) // the library sees an error when it reads
	return true
}

// framePlace tracks the position of a byte stream in HTTP/2 frames.
type framePlace struct {
	skip   int  // bytes of the preface, or of a frame's payload, still to come
	got    int  // bytes of a frame's header
	length int  // of its payload, as read so far
	begun  bool // the first frame's header was read: the library's SETTINGS (RFC 9113, 3.4)
	fields bool // in a header block, which no other frame may interrupt
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

// between reports whether another frame may be inserted here.
func (f *framePlace) between() bool { return f.begun && f.skip == 0 && f.got == 0 && !f.fields }

// liveness detects that the peer of a connection is gone.
type liveness struct {
	conn  *pinged
	heard int64 // at the last look
	asked bool  // a PING was sent and nothing but its answer has arrived since
	at    int64 // bytes heard at that time
	since time.Time
}

// look checks a connection with a number of requests in flight and reports whether its
// peer has left a PING unanswered for patience. While requests are in flight and
// nothing arrives, it sends a single PING, because gRPC servers close connections with
// more than two PINGs between their own frames of data.
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

// longestPatience limits how long a PING may go unanswered, and the silence before it.
const longestPatience = time.Second

// patience is how long the peer of a multiplexed connection may be silent before a PING is
// sent, and how long it may then take to answer.
func (s *Spec) patience() time.Duration { return min(seconds(s.TimeoutS)/8, longestPatience) }
