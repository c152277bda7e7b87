package stream

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// Handler receives the events of a stream, under the connection's lock.
type Handler interface {
	// Message handles a message, whose bytes are only valid during the call. at
	// is when its last byte arrived, Unix nanoseconds.
	Message(message []byte, at int64)
	// Closed is the last call.
	Closed(status *Status)
}

// ErrFull is returned if a connection takes no more streams.
var ErrFull = errors.New("the connection takes no more streams")

// Header is a metadata entry of a request.
type Header = hpack.HeaderField

// Stream is a gRPC stream. Its methods are for callbacks of its Handler and
// for functions run by [Conn.Do].
type Stream struct {
	conn          *Conn
	handler       Handler
	id            uint32
	closedLocally bool
	blocked       bool // waits for the connection's window
	paused        bool // does not read for now

	sendWindow int64
	unacked    int // bytes consumed without a WINDOW_UPDATE yet
	pending    []chunk

	partial []byte // an incomplete message with its prefix; its capacity counts in conn.held
	waiting []byte // read from the connection while paused
	heldAt  int64  // arrival of the last of waiting
}

// chunk is a message being sent or held back by flow control.
type chunk struct {
	message []byte
	done    int // bytes of the prefix and the message queued so far
	sent    func(at int64)
}

func (k *chunk) left() int { return prefix + len(k.message) - k.done }

// append appends the next n bytes to b.
func (k *chunk) append(b []byte, n int) []byte {
	if k.done < prefix {
		var head [prefix]byte
		binary.BigEndian.PutUint32(head[1:], uint32(len(k.message)))
		part := head[k.done:min(prefix, k.done+n)]
		b, n, k.done = append(b, part...), n-len(part), k.done+len(part)
	}
	if n > 0 {
		b = append(b, k.message[k.done-prefix:][:n]...)
		k.done += n
	}
	return b
}

// prefix is the length of the prefix of each message: a flag and a length.
const prefix = 5

// Open opens a stream for a method path ("/package.Service/Method").
func (c *Conn) Open(path string, metadata []Header, handler Handler) (*Stream, error) {
	if c.closed != nil {
		return nil, c.closed
	}
	if c.draining || uint32(len(c.streams)) >= c.peerStreams || c.nextID > maxWindow-2 {
		return nil, ErrFull
	}
	s := &Stream{conn: c, handler: handler, id: c.nextID, sendWindow: c.initialWindow}
	c.headers.Reset()
	scheme := "http"
	if c.options.TLS != nil {
		scheme = "https"
	}
	for _, h := range append([]Header{
		{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: scheme}, {Name: ":path", Value: path},
		{Name: ":authority", Value: c.options.Authority}, {Name: "content-type", Value: "application/grpc"},
		{Name: "user-agent", Value: "meshtrial"}, {Name: "te", Value: "trailers"},
	}, metadata...) {
		if err := c.encoder.WriteField(h); err != nil {
			return nil, err
		}
	}
	c.nextID += 2
	block := c.headers.Bytes()
	kind, flags := http2.FrameHeaders, http2.Flags(0)
	for first := true; first || len(block) > 0; first = false {
		part := block[:min(len(block), c.peerFrame)]
		if block = block[len(part):]; len(block) == 0 {
			flags = http2.FlagHeadersEndHeaders
		}
		c.out = appendFrameHeader(c.out, len(part), kind, flags, s.id)
		c.out = append(c.out, part...)
		kind = http2.FrameContinuation
	}
	c.streams[s.id] = s
	return s, nil
}

// Send queues a message, which is written with the current batch. sent, if not nil,
// is called when its last byte has been passed to the kernel. The bytes are copied. A
// stream that has ended ignores the message.
func (s *Stream) Send(message []byte, sent func(at int64)) {
	if rest := (chunk{message: message, sent: sent}); !s.queue(&rest) {
		rest.message = bytes.Clone(message)
		s.pending = append(s.pending, rest)
	}
}

// SendShared is Send for bytes that are never changed afterwards, which it does not
// copy.
func (s *Stream) SendShared(message []byte) {
	if rest := (chunk{message: message}); !s.queue(&rest) {
		s.pending = append(s.pending, rest)
	}
}

// queue queues as much of a new message as allowed and reports whether that is all of
// it.
func (s *Stream) queue(one *chunk) bool {
	if s.conn.streams[s.id] != s {
		return true
	}
	return len(s.pending) == 0 && s.put(one)
}

// pump queues as much of the pending messages as the windows allow.
func (s *Stream) pump() {
	for len(s.pending) > 0 {
		if !s.put(&s.pending[0]) {
			return
		}
		s.pending = s.pending[1:]
	}
	s.pending = nil
}

// put queues as much of a message as the windows allow and reports whether that is
// all of it.
func (s *Stream) put(one *chunk) bool {
	c := s.conn
	for one.left() > 0 {
		n := int(min(int64(one.left()), s.sendWindow, c.sendWindow, int64(c.peerFrame)))
		if n <= 0 {
			if c.sendWindow <= 0 && !s.blocked {
				s.blocked = true
				c.blocked = append(c.blocked, s)
			}
			return false
		}
		c.reserve(frameHeader + n)
		c.out = appendFrameHeader(c.out, n, http2.FrameData, 0, s.id)
		c.out = one.append(c.out, n)
		s.sendWindow -= int64(n)
		c.sendWindow -= int64(n)
	}
	if one.sent != nil {
		c.sent = append(c.sent, one.sent)
	}
	return true
}

// Pending returns the number of messages held back by flow control.
func (s *Stream) Pending() int { return len(s.pending) }

// Cancel ends the stream from this side and notifies its Handler.
func (s *Stream) Cancel(why string) {
	c := s.conn
	if c.streams[s.id] != s {
		return
	}
	delete(c.streams, s.id)
	c.reset(s.id, http2.ErrCodeCancel)
	s.end(&Status{Code: Canceled, Message: why, Local: true})
}

// Pause stops reading: arriving data counts against the stream's window, which is not
// reopened before Resume.
func (s *Stream) Pause() { s.paused = true }

// Resume continues reading.
func (s *Stream) Resume() {
	if !s.paused || s.conn.streams[s.id] != s {
		return
	}
	s.paused = false
	s.conn.stamp.expect(0) // the waiting data has already arrived
	data := s.waiting
	s.waiting = nil
	s.read(data, s.heldAt)
}

// end notifies the handler, once.
func (s *Stream) end(status *Status) {
	delete(s.conn.streams, s.id)
	s.drop()
	s.waiting, s.pending = nil, nil
	s.handler.Closed(status)
}

// alive reports whether no callback has ended the stream.
func (s *Stream) alive() bool { return s.conn.streams[s.id] == s }

// read handles bytes of the stream that arrived at the given time.
func (s *Stream) read(data []byte, at int64) {
	for len(data) > 0 && s.alive() {
		if s.paused {
			// Waiting data is still within the window; more than a window is
			// a protocol error (RFC 9113, 6.9.1).
			if len(s.waiting)+len(data) > s.conn.options.Window {
				s.conn.reset(s.id, http2.ErrCodeFlowControl)
				s.end(&Status{Code: Internal, Message: "flow control: more came than the stream's window holds", Local: true})
				return
			}
			s.waiting, s.heldAt = append(s.waiting, data...), at
			return
		}
		n, err := s.consume(data, at)
		s.unacked += n
		data = data[n:]
		if err != nil {
			if s.alive() {
				s.conn.reset(s.id, http2.ErrCodeCancel)
				s.end(&Status{Code: Internal, Message: err.Error(), Local: true})
			}
			return
		}
	}
	if s.alive() && s.unacked >= s.conn.options.Window/givenBack {
		s.conn.windowUpdate(s.id, s.unacked)
		s.unacked = 0
	}
}

// consume takes at most the rest of one message, and passes the message on when it
// is complete.
func (s *Stream) consume(data []byte, at int64) (int, error) {
	if len(s.partial) == 0 && len(data) >= prefix {
		size, err := s.size(data)
		if err != nil {
			return 0, err
		}
		if len(data) >= prefix+size { // no copy needed
			s.conn.turn(at)
			s.handler.Message(data[prefix:prefix+size], at)
			return prefix + size, nil
		}
	}
	taken := 0
	if len(s.partial) < prefix { // a message in parts; its prefix may be, too
		if err := s.room(prefix, prefix); err != nil {
			return 0, err
		}
		taken = min(prefix-len(s.partial), len(data))
		s.partial = append(s.partial, data[:taken]...)
		if len(s.partial) < prefix {
			return taken, nil
		}
		data = data[taken:]
	}
	size, err := s.size(s.partial)
	if err != nil {
		return taken, err
	}
	n := min(prefix+size-len(s.partial), len(data))
	if err := s.room(len(s.partial)+n, prefix+size); err != nil {
		return taken, err
	}
	s.partial = append(s.partial, data[:n]...)
	taken += n
	if len(s.partial) == prefix+size {
		whole := s.partial
		s.partial = nil
		s.conn.turn(at)
		s.handler.Message(whole[prefix:], at)
		s.conn.held -= int64(cap(whole))
		putBuffer(whole)
	}
	return taken, nil
}

// Growth of the buffer of an incomplete message: to twice what has arrived or, once
// that is a whole frame, to 8 times, which saves copying.
const (
	growFew   = 2
	growMany  = 8
	manyBytes = maxFrame
)

// room grows the buffer of the incomplete message to hold need bytes. It grows with
// the data that has arrived, and never beyond the whole message except for the
// rounding of [getBuffer]. So a prefix alone reserves hardly any memory, whatever
// length it claims.
func (s *Stream) room(need, whole int) error {
	if cap(s.partial) >= need {
		return nil
	}
	c := s.conn
	by := growFew
	if cap(s.partial) >= manyBytes {
		by = growMany
	}
	grown := getBuffer(min(max(need, by*cap(s.partial)), whole))
	c.held += int64(cap(grown)) - int64(cap(s.partial))
	if limit := c.maxHeld(); c.held > limit {
		c.held -= int64(cap(grown)) - int64(cap(s.partial))
		putBuffer(grown)
		return fmt.Errorf("messages under way on the connection need more than %d bytes", limit)
	}
	grown = append(grown, s.partial...)
	putBuffer(s.partial)
	s.partial = grown
	return nil
}

// missing returns the number of bytes that the incomplete message lacks; 0 if there
// is none or its length is not known yet.
func (s *Stream) missing() int {
	if len(s.partial) < prefix {
		return 0
	}
	size, err := s.size(s.partial)
	if err != nil {
		return 0
	}
	return prefix + size - len(s.partial) - len(s.waiting)
}

// drop discards the incomplete message.
func (s *Stream) drop() {
	if s.partial != nil {
		s.conn.stamp.expect(0) // the rest may not come
	}
	s.conn.held -= int64(cap(s.partial))
	putBuffer(s.partial)
	s.partial = nil
}

// size reads the prefix of a message.
func (s *Stream) size(head []byte) (int, error) {
	if head[0] != 0 {
		return 0, fmt.Errorf("a compressed message, though none was asked for")
	}
	size := binary.BigEndian.Uint32(head[1:prefix])
	if uint64(size) > uint64(s.conn.options.MaxMessage) {
		return 0, fmt.Errorf("a message of %d bytes, more than %d", size, s.conn.options.MaxMessage)
	}
	return int(size), nil
}
