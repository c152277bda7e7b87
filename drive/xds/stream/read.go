package stream

import (
	"golang.org/x/net/http2"
)

func (c *Conn) readAll() error {
	if err := c.Flush(); err != nil {
		return err
	}
	for {
		head, data, err := c.next()
		at := c.stamp.last
		var frame http2.Frame
		if err == nil && data == nil {
			frame, err = c.framer.ReadFrameForHeader(head)
			at = c.stamp.last
		}
		c.mu.Lock()
		switch {
		case err != nil:
			err = c.frameError(err)
		case data != nil:
			err = c.data(head, data, at)
			_, _ = c.buffer.Discard(len(data)) // cannot fail: they are in the buffer
		default:
			err = c.handle(frame, at)
		}
		// Send the answers to this batch of frames in one write.
		if err == nil && !c.wholeFrame() {
			err = c.flush()
			c.stamp.expect(c.expected())
		}
		c.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

// next reads the header of the next frame. If the frame is a DATA frame that is
// completely in the buffer, next also returns its payload without a copy. The framer
// reads other frames.
func (c *Conn) next() (head http2.FrameHeader, data []byte, err error) {
	head, err = c.framer.ReadFrameHeader()
	if err != nil || head.Type != http2.FrameData || head.StreamID == 0 || head.Flags.Has(http2.FlagDataPadded) ||
		head.Length == 0 || int(head.Length) > c.buffer.Size() {
		return head, nil, err
	}
	data, err = c.buffer.Peek(int(head.Length))
	return head, data, err
}

// frameHeader is the length of a frame header.
const frameHeader = 9

// wholeFrame reports whether another frame can be read without waiting.
func (c *Conn) wholeFrame() bool {
	n := c.buffer.Buffered()
	if n < frameHeader || len(c.out) >= flushAt {
		return false
	}
	head, err := c.buffer.Peek(3)
	return err == nil && n >= frameHeader+int(head[0])<<16+int(head[1])<<8+int(head[2])
}

// expected returns the number of bytes that can be awaited without delaying a
// message: as many as must arrive before one of the incomplete messages is complete,
// and no more than the server may send before the next WINDOW_UPDATE.
func (c *Conn) expected() int {
	if c.held == 0 || c.options.TLS != nil { // TLS may have read ahead
		return 0
	}
	if c.options.Streams > 1 && (c.options.MayWait == nil || !c.options.MayWait()) {
		return 0
	}
	least := 0
	for _, s := range c.streams {
		if s.paused { // its window may be used up
			continue
		}
		if n := s.missing(); n > 0 && (least == 0 || n < least) {
			least = n
		}
	}
	// Less than half of any window is consumed without a WINDOW_UPDATE. Frame
	// headers do not count against windows.
	most := c.options.Window - c.options.Window/givenBack - maxFrame
	if least = min(least, most, maxExpected) - c.buffer.Buffered(); least < minExpected {
		return 0
	}
	return least
}

// frameError ends only one stream if the error is a stream error.
func (c *Conn) frameError(err error) error {
	if fault, ok := err.(http2.StreamError); ok {
		if s := c.streams[fault.StreamID]; s != nil {
			c.reset(s.id, fault.Code)
			s.end(&Status{Code: Internal, Message: fault.Error(), Local: true})
		}
		return nil
	}
	return err
}
