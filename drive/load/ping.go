package load

import (
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
)

// pinged is a client's HTTP/2 connection, above TLS. It inserts PINGs between the frames that a
// library writes; libraries ignore answers to PINGs that they did not send. It also combines writes
// that libraries make separately: a request's headers with its body, and acknowledgements of PINGs
// and window updates with the requests that follow.
type pinged struct {
	net.Conn
	below *watched
	heard atomic.Int64 // bytes, in plain text
	over  atomic.Bool  // nothing more arrives

	mu    sync.Mutex // of writes
	place framePlace
	held  []byte      // complete frames that are not written yet
	late  *time.Timer // writes them if nothing follows, for example because the peer's window is closed
}

// longestHeld is how long frames are held.
const longestHeld = time.Millisecond

func newPinged(conn net.Conn) *pinged {
	p := &pinged{Conn: conn, below: watchedOf(conn), place: framePlace{skip: len(http2.ClientPreface)}}
	p.late = time.AfterFunc(longestHeld, func() {
		p.mu.Lock() // a write in progress may add to what is held, and does not start the timer again
		defer p.mu.Unlock()
		p.flushHeld()
	})
	p.late.Stop()
	return p
}

// Read implements [net.Conn].
func (p *pinged) Read(b []byte) (int, error) {
	if p.holds() {
		runtime.Gosched() // what has arrived may let another request begin
		p.release()
	}
	n, err := p.Conn.Read(b)
	p.heard.Add(int64(n))
	if err != nil {
		p.over.Store(true)
	}
	return n, err
}

// Write implements [net.Conn].
func (p *pinged) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.place.advance(b)
	hold := p.place.between() && p.place.held
	if len(p.held) == 0 && !hold {
		return p.Conn.Write(b)
	}
	if len(p.held) == 0 {
		p.late.Reset(longestHeld)
	}
	if p.held = append(p.held, b...); hold {
		return len(b), nil
	}
	if err := p.flush(); err != nil {
		return 0, err
	}
	return len(b), nil
}

// flush writes what is held. The caller holds the lock.
func (p *pinged) flush() error {
	p.late.Stop()
	_, err := p.Conn.Write(p.held)
	p.held = p.held[:0]
	return err
}

// holds reports whether anything is held that no write is about to take along.
func (p *pinged) holds() bool {
	if !p.mu.TryLock() {
		return false
	}
	defer p.mu.Unlock()
	return len(p.held) > 0
}

// release writes what is held, unless a write is in progress: that takes it along, or the timer does.
func (p *pinged) release() {
	if p.mu.TryLock() {
		defer p.mu.Unlock()
		p.flushHeld()
	}
}

// flushHeld writes what is held, if anything. The caller holds the lock.
func (p *pinged) flushHeld() {
	if len(p.held) > 0 {
		_ = p.flush() // the library sees an error when it reads
	}
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
	p.held = append(p.held, pingFrame[:]...)
	_ = p.flush() // the library sees an error when it reads
	return true
}

// framePlace tracks the position of a byte stream in HTTP/2 frames.
type framePlace struct {
	skip   int  // bytes of the preface, or of a frame's payload, still to come
	got    int  // bytes of a frame's header
	length int  // of its payload, as read so far
	begun  bool // the first frame's header was read: the library's SETTINGS (RFC 9113, 3.4)
	fields bool // in a header block, which no other frame may interrupt
	held   bool // the last frame can wait for another
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
		case f.got == 4:
			f.flags(http2.Flags(b[0]))
		}
		b = b[1:]
		if f.got++; f.got == frameHead {
			f.skip, f.got, f.length, f.begun = f.length, 0, 0, true
		}
	}
}

func (f *framePlace) flags(flags http2.Flags) {
	switch f.kind {
	case http2.FrameHeaders:
		f.held = !flags.Has(http2.FlagHeadersEndStream)
		fallthrough
	case http2.FrameContinuation:
		f.fields = !flags.Has(http2.FlagHeadersEndHeaders)
	default:
		f.held = f.kind == http2.FrameWindowUpdate || f.kind == http2.FramePing && flags.Has(http2.FlagPingAck)
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
