package stream

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// Options of a connection.
type Options struct {
	// TLS is the configuration of TLS; nil: plaintext.
	TLS *tls.Config
	// Window is the flow-control window of each stream, bytes; at least 1.
	Window int
	// Streams is the intended number of streams. The window of the connection
	// is the sum of theirs, so that they do not block each other.
	Streams int
	// MaxMessage is the largest message, bytes.
	MaxMessage int
	// ReadBuffer is the size of the socket's read buffer, bytes.
	ReadBuffer int
	// OnRead is called after every read with the time, in nanoseconds, since the
	// kernel received the newest of the bytes; -1: unknown.
	OnRead func(waitedNS int64)
	// OnTurn is called after each batch of messages with the time, in nanoseconds,
	// from when the kernel had the first of them until all answers were written.
	OnTurn func(tookNS int64)
	// MayWait reports whether a message may be handled late, and timestamped
	// accordingly, while a longer message of another stream is arriving, so that
	// the connection wakes up less often. Its result may change over time. nil:
	// never. It has no effect with a single stream.
	MayWait func() bool
	// Authority is the :authority of requests; "" means the address.
	Authority string
	// Dial replaces TCP connections; nil: TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
}

// Limits and defaults.
const (
	// defaultWindow is the initial window of a connection (RFC 9113, 6.9.2).
	defaultWindow = 65535
	maxFrame      = 16384
	maxWindow     = 1<<31 - 1
	keptBuffer    = 4 << 10  // larger buffers are not kept for reuse
	flushAt       = 64 << 10 // write when this many bytes are queued, even if more frames could be handled first
	dialTimeout   = 10 * time.Second
	// A WINDOW_UPDATE is sent when 1/givenBack of a window has been consumed, as
	// grpc-go does (internal/transport/flowcontrol.go).
	givenBack = 4
	// maxExpected limits the bytes to wait for at once.
	maxExpected  = 512 << 10
	minExpected  = 16 << 10 // waiting for less saves nothing
	writeTimeout = 30 * time.Second
)

// Conn is one HTTP/2 connection.
type Conn struct {
	options Options
	net     net.Conn
	stamp   *stampConn
	framer  *http2.Framer
	buffer  *bufio.Reader

	mu       sync.Mutex
	streams  map[uint32]*Stream
	nextID   uint32
	out      []byte
	sent     []func(at int64) // to call when out has been written
	headers  bytes.Buffer
	encoder  *hpack.Encoder
	closed   error         // why the connection ended
	done     chan struct{} // closed with it by Close
	draining bool          // the server wants no new streams

	sendWindow    int64 // of the connection
	initialWindow int64 // of new streams, as the server requested
	peerFrame     int   // largest frame the server accepts
	peerStreams   uint32
	unacked       int // bytes read and not yet returned to the connection's window
	recvWindow    int // of the connection, as we keep it
	blocked       []*Stream
	held          int64 // memory of incomplete messages, bytes
	taken         int64 // arrival of the first message whose answers have not been written; 0: none
}

// maxHeld limits the memory of incomplete messages: the largest message, and a window
// of every other stream, because all may be receiving at the same time.
func (c *Conn) maxHeld() int64 {
	return 2*int64(c.options.MaxMessage) + int64(c.options.Window)*int64(max(c.options.Streams, 1))
}

// Dial connects. Nothing is read until [Conn.Run] is called.
func Dial(ctx context.Context, address string, o Options) (*Conn, error) {
	if o.Dial == nil {
		dialer := net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}
		o.Dial = func(ctx context.Context, address string) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", address)
		}
	}
	raw, err := o.Dial(ctx, address)
	if err != nil {
		return nil, err
	}
	o.Authority = cmp.Or(o.Authority, address)
	c := &Conn{options: o, streams: map[uint32]*Stream{}, nextID: 1, sendWindow: defaultWindow, initialWindow: defaultWindow,
		peerFrame: maxFrame, peerStreams: maxWindow, done: make(chan struct{})}
	c.stamp = newStampConn(raw, o.OnRead)
	c.net = c.stamp
	if o.TLS != nil {
		secure := tls.Client(c.stamp, o.TLS)
		ctx, cancel := context.WithTimeout(ctx, dialTimeout)
		defer cancel()
		if err := secure.HandshakeContext(ctx); err != nil {
			raw.Close()
			return nil, fmt.Errorf("TLS with %s: %w", address, err)
		}
		if secure.ConnectionState().NegotiatedProtocol != "h2" {
			raw.Close()
			return nil, fmt.Errorf("TLS with %s: it does not speak HTTP/2", address)
		}
		c.net = secure
	}
	c.buffer = bufio.NewReaderSize(c.net, max(o.ReadBuffer, 4<<10))
	c.framer = http2.NewFramer(nil, c.buffer)
	c.framer.SetReuseFrames()
	c.framer.SetMaxReadFrameSize(maxFrame)
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.framer.MaxHeaderListSize = 64 << 10
	c.encoder = hpack.NewEncoder(&c.headers)
	c.recvWindow = int(min(int64(o.Window)*int64(max(o.Streams, 1)), maxWindow))
	c.recvWindow = max(c.recvWindow, defaultWindow)
	c.preface()
	return c, nil
}

// preface queues the client's connection preface.
func (c *Conn) preface() {
	c.out = append(c.out, http2.ClientPreface...)
	settings := []http2.Setting{
		{ID: http2.SettingEnablePush, Val: 0},
		{ID: http2.SettingInitialWindowSize, Val: uint32(c.options.Window)},
		{ID: http2.SettingMaxFrameSize, Val: maxFrame},
	}
	c.out = appendFrameHeader(c.out, 6*len(settings), http2.FrameSettings, 0, 0)
	for _, s := range settings {
		c.out = append(c.out, byte(s.ID>>8), byte(s.ID), byte(s.Val>>24), byte(s.Val>>16), byte(s.Val>>8), byte(s.Val))
	}
	if c.recvWindow > defaultWindow {
		c.windowUpdate(0, c.recvWindow-defaultWindow)
	}
}

// Run reads until the connection ends, closes the remaining streams, and returns the
// reason. Call it once; the caller's goroutine becomes the connection's.
func (c *Conn) Run() error {
	err := c.readAll()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed == nil {
		c.closed = err
	}
	_ = c.net.Close()
	left := c.streams
	c.streams = map[uint32]*Stream{}
	for _, s := range left {
		s.end(&Status{Code: Unavailable, Message: "connection: " + c.closed.Error(), Local: true})
	}
	c.sent, c.out, c.blocked = nil, nil, nil
	return c.closed
}

// Flush writes the queued bytes. Callbacks of a Handler need not call it.
func (c *Conn) Flush() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.flush()
}

func (c *Conn) flush() error {
	if c.closed != nil {
		return c.closed
	}
	for len(c.out) > 0 || len(c.sent) > 0 {
		out, sent := c.out, c.sent
		c.sent = nil
		if len(out) > 0 {
			_ = c.net.SetWriteDeadline(time.Now().Add(writeTimeout))
			if _, err := c.net.Write(out); err != nil {
				c.closed = err
				_ = c.net.Close()
				return err
			}
		}
		c.out = out[:0]
		if cap(out) > keptBuffer {
			c.out = nil
			putBuffer(out)
		}
		at := time.Now().UnixNano()
		for _, f := range sent {
			f(at)
		}
	}
	if c.taken != 0 && c.options.OnTurn != nil {
		c.options.OnTurn(time.Now().UnixNano() - c.taken)
	}
	c.taken = 0
	return nil
}

// turn records that a message that arrived at the given time is being handled.
func (c *Conn) turn(at int64) {
	if c.taken == 0 || at < c.taken {
		c.taken = at
	}
}

// Close ends the connection and makes Run return. A write blocked by the server fails
// immediately.
func (c *Conn) Close() {
	_ = c.net.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed == nil {
		c.closed = net.ErrClosed
	}
	select {
	case <-c.done:
	default:
		close(c.done)
	}
}

// Streams returns the number of open streams.
func (c *Conn) Streams() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.streams)
}

// Do calls f under the connection's lock and writes what f queued.
func (c *Conn) Do(f func()) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
	return c.flush()
}

// TryDo is Do unless the connection is busy, in which case it does nothing and returns
// false. A connection may be busy for as long as the server reads nothing.
func (c *Conn) TryDo(f func()) (done bool, err error) {
	if !c.mu.TryLock() {
		return false, nil
	}
	defer c.mu.Unlock()
	f()
	return true, c.flush()
}

// Ping writes a PING, which keeps the connection from looking dead on either side. It
// returns false if the connection is busy. The bytes that come next are read
// immediately, however much more is expected: they may be the answer, or the server's
// end of a stream in the middle of a message.
func (c *Conn) Ping() (done bool, err error) {
	return c.TryDo(func() {
		c.out = appendFrameHeader(c.out, 8, http2.FramePing, 0, 0)
		c.out = append(c.out, make([]byte, 8)...)
		c.stamp.expect(0)
	})
}

// reserve grows the output buffer for n more bytes.
func (c *Conn) reserve(n int) {
	if cap(c.out)-len(c.out) >= n || len(c.out)+n <= keptBuffer {
		return
	}
	grown := append(getBuffer(max(len(c.out)+n, 2*cap(c.out))), c.out...)
	putBuffer(c.out)
	c.out = grown
}

func appendFrameHeader(b []byte, length int, kind http2.FrameType, flags http2.Flags, id uint32) []byte {
	return append(b, byte(length>>16), byte(length>>8), byte(length), byte(kind), byte(flags),
		byte(id>>24), byte(id>>16), byte(id>>8), byte(id))
}

func (c *Conn) windowUpdate(id uint32, n int) {
	c.out = appendFrameHeader(c.out, 4, http2.FrameWindowUpdate, 0, id)
	c.out = append(c.out, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
}

func (c *Conn) reset(id uint32, code http2.ErrCode) {
	c.out = appendFrameHeader(c.out, 4, http2.FrameRSTStream, 0, id)
	c.out = append(c.out, byte(code>>24), byte(code>>16), byte(code>>8), byte(code))
}
