package stream

import (
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/net/http2"
)

// handle handles a frame that was complete at the given time.
func (c *Conn) handle(frame http2.Frame, at int64) error {
	switch f := frame.(type) {
	case *http2.DataFrame:
		return c.data(f.FrameHeader, f.Data(), at)
	case *http2.MetaHeadersFrame:
		c.metaHeaders(f)
	case *http2.RSTStreamFrame:
		if s := c.streams[f.StreamID]; s != nil {
			delete(c.streams, s.id)
			s.end(&Status{Code: resetCode(f.ErrCode), Message: "stream reset: " + f.ErrCode.String()})
		}
	case *http2.SettingsFrame:
		return c.settings(f)
	case *http2.WindowUpdateFrame:
		return c.grown(f)
	case *http2.PingFrame:
		if !f.IsAck() {
			c.out = appendFrameHeader(c.out, 8, http2.FramePing, http2.FlagPingAck, 0)
			c.out = append(c.out, f.Data[:]...)
		}
	case *http2.GoAwayFrame:
		c.goAway(f)
	}
	return nil // unknown frames must be ignored (RFC 9113, 5.5)
}

// data handles a DATA frame. All of it counts against the windows, including the
// padding.
func (c *Conn) data(head http2.FrameHeader, data []byte, at int64) error {
	length := int(head.Length)
	c.unacked += length
	if c.unacked >= c.recvWindow/givenBack {
		c.windowUpdate(0, c.unacked)
		c.unacked = 0
	}
	s := c.streams[head.StreamID]
	if s == nil {
		return nil // a stream that was just closed
	}
	s.unacked += length - len(data)
	s.read(data, at)
	if head.Flags.Has(http2.FlagDataEndStream) && c.streams[s.id] == s {
		delete(c.streams, s.id)
		s.end(&Status{Code: Internal, Message: "the stream ended without a status"})
	}
	return nil
}

func (c *Conn) metaHeaders(f *http2.MetaHeadersFrame) {
	s := c.streams[f.StreamID]
	if s == nil {
		return
	}
	status := &Status{Code: -1}
	http := ""
	for _, h := range f.Fields {
		switch h.Name {
		case ":status":
			http = h.Value
		case "grpc-status":
			code, err := strconv.Atoi(h.Value)
			if err != nil {
				code = int(Unknown)
			}
			status.Code = Code(code)
		case "grpc-message":
			status.Message = h.Value
		}
	}
	switch {
	case http != "" && http != "200" && status.Code < 0:
		c.reset(s.id, http2.ErrCodeCancel)
		status = &Status{Code: Unavailable, Message: "HTTP status " + http}
	case !f.StreamEnded():
		return // the headers before the first message
	case status.Code < 0:
		status = &Status{Code: Unknown, Message: "no status in the trailers"}
	}
	delete(c.streams, s.id)
	if !f.StreamEnded() || !s.closedLocally {
		c.reset(s.id, http2.ErrCodeNo)
	}
	s.end(status)
}

// resetCode maps HTTP/2 error codes as specified by gRPC over HTTP/2.
func resetCode(code http2.ErrCode) Code {
	switch code {
	case http2.ErrCodeRefusedStream:
		return Unavailable
	case http2.ErrCodeCancel:
		return Canceled
	case http2.ErrCodeEnhanceYourCalm:
		return ResourceExhausted
	}
	return Internal
}

func (c *Conn) settings(f *http2.SettingsFrame) error {
	if f.IsAck() {
		return nil
	}
	grown := false
	err := f.ForeachSetting(func(s http2.Setting) error {
		if err := s.Valid(); err != nil {
			return err
		}
		switch s.ID {
		case http2.SettingInitialWindowSize:
			// Adjust the windows of open streams (RFC 9113, 6.9.2).
			by := int64(s.Val) - c.initialWindow
			c.initialWindow, grown = int64(s.Val), grown || by > 0
			for _, one := range c.streams {
				one.sendWindow += by
			}
		case http2.SettingMaxFrameSize:
			c.peerFrame = int(min(s.Val, 1<<20))
		case http2.SettingMaxConcurrentStreams:
			c.peerStreams = s.Val
		case http2.SettingHeaderTableSize:
			c.encoder.SetMaxDynamicTableSizeLimit(s.Val)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("settings: %w", err)
	}
	c.out = appendFrameHeader(c.out, 0, http2.FrameSettings, http2.FlagSettingsAck, 0)
	if grown { // the same as a WINDOW_UPDATE for each stream
		for _, one := range c.streams {
			one.pump()
		}
	}
	return nil
}

// grown handles a WINDOW_UPDATE.
func (c *Conn) grown(f *http2.WindowUpdateFrame) error {
	if f.StreamID == 0 {
		if c.sendWindow += int64(f.Increment); c.sendWindow > maxWindow {
			return errors.New("flow control: the connection's window is too large")
		}
		c.unblock()
		return nil
	}
	s := c.streams[f.StreamID]
	if s == nil {
		return nil
	}
	if s.sendWindow += int64(f.Increment); s.sendWindow > maxWindow {
		c.reset(s.id, http2.ErrCodeFlowControl)
		delete(c.streams, s.id)
		s.end(&Status{Code: Internal, Message: "flow control: the stream's window is too large", Local: true})
		return nil
	}
	s.pump()
	return nil
}

// unblock resumes streams that waited for the connection's window.
func (c *Conn) unblock() {
	waiting := c.blocked
	c.blocked = nil
	for _, s := range waiting {
		s.blocked = false
	}
	for _, s := range waiting {
		if c.streams[s.id] == s {
			s.pump()
		}
	}
}

// goAway ends the streams that the server has not accepted; the others continue.
func (c *Conn) goAway(f *http2.GoAwayFrame) {
	c.draining = true
	for id, s := range c.streams {
		if id > f.LastStreamID {
			delete(c.streams, id)
			s.end(&Status{Code: Unavailable, Message: "the server is going away: " + f.ErrCode.String()})
		}
	}
}
