package load

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/meshtrial/meshtrial/study/protocol"
)

func init() { dialects[protocol.GRPCStream] = dialect{channel: newGRPCStream} }

// Flow control and frames of HTTP/2 (RFC 9113).
const (
	h2Window    = 65535   // a peer's initial window
	h2Ours      = 1 << 24 // our windows, of the stream and the connection
	h2Frame     = 16384   // largest frame, either way
	h2MaxWindow = 1<<31 - 1
	h2Table     = 4096     // table of header fields
	h2MaxBlock  = 64 << 10 // largest header block
	theStream   = 1        // number of the only stream on a connection
)

// grpcStream is the client's side of one bidirectional gRPC stream on an HTTP/2 connection of its
// own.
type grpcStream struct {
	hello   []byte
	framed  []byte // a message with its prefix
	decoder *hpack.Decoder
	framer  *http2.Framer // parses frames other than DATA, from frame
	frame   bytes.Reader

	send, sendAll int64 // what the stream's and the connection's window have left
	initial       int64 // window of new streams, as the peer set it
	mostData      int   // in a frame, as the peer accepts it
	kept          []byte
	replies       []byte

	opened  bool
	leaving bool  // our half ends once nothing is kept back
	closed  bool  // it has ended
	left    int64 // bytes of the DATA frame still to come
	padding int64 // bytes after it
	last    bool  // the DATA frame in left ends the stream
	prefix  [grpcPrefix]byte
	have    int   // bytes of the prefix
	body    int64 // bytes of the message still to come
	taken   int64 // bytes of DATA that were not yet returned to the windows
	block   []byte
	inBlock bool // in a header block
	ends    bool // the header block ends the stream
}

func newGRPCStream(spec *Spec, t target, id int) channel {
	g := &grpcStream{framed: appendMessage(nil, spec.payload())}
	var hello bytes.Buffer // takes everything
	hello.WriteString(http2.ClientPreface)
	frames := http2.NewFramer(&hello, nil)
	_ = frames.WriteSettings(http2.Setting{ID: http2.SettingEnablePush, Val: 0}, http2.Setting{ID: http2.SettingInitialWindowSize, Val: h2Ours},
		http2.Setting{ID: http2.SettingHeaderTableSize, Val: h2Table})
	_ = frames.WriteWindowUpdate(0, h2Ours-h2Window)
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	field := func(name, value string) {
		_ = encoder.WriteField(hpack.HeaderField{Name: name, Value: value})
	}
	field(":method", "POST")
	field(":scheme", "http")
	field(":path", t.path)
	field(":authority", t.hostPort)
	field("content-type", "application/grpc")
	field("te", "trailers")
	field("user-agent", "meshtrial")
	for _, h := range streamHeaders(spec, id) {
		field(strings.ToLower(h.Name), h.Value)
	}
	rest := block.Bytes()
	n := min(len(rest), h2Frame)
	_ = frames.WriteHeaders(http2.HeadersFrameParam{StreamID: theStream, BlockFragment: rest[:n], EndHeaders: n == len(rest)})
	for rest = rest[n:]; len(rest) > 0; rest = rest[n:] {
		n = min(len(rest), h2Frame)
		_ = frames.WriteContinuation(theStream, n == len(rest), rest[:n])
	}
	g.hello = hello.Bytes()
	return g
}

func appendH2(b []byte, length int, kind http2.FrameType, flags http2.Flags, id uint32) []byte {
	b = append(b, byte(length>>16), byte(length>>8), byte(length), byte(kind), byte(flags))
	return binary.BigEndian.AppendUint32(b, id)
}

// appendH2Number appends a frame whose payload is a number.
func appendH2Number(b []byte, kind http2.FrameType, id, number uint32) []byte {
	return binary.BigEndian.AppendUint32(appendH2(b, 4, kind, 0, id), number)
}

func (g *grpcStream) open(out []byte) []byte {
	*g = grpcStream{hello: g.hello, framed: g.framed, decoder: hpack.NewDecoder(h2Table, nil), send: h2Window, sendAll: h2Window, initial: h2Window, mostData: h2Frame,
		kept: g.kept[:0], replies: g.replies[:0], block: g.block[:0]}
	g.decoder.SetMaxStringLength(h2MaxBlock)
	g.framer = http2.NewFramer(nil, &g.frame)
	return append(out, g.hello...)
}

func (g *grpcStream) message(out []byte) []byte {
	if len(g.kept) > 0 {
		g.kept = append(g.kept, g.framed...)
		return out
	}
	out, rest := g.data(out, g.framed)
	g.kept = append(g.kept, rest...)
	return out
}

// data appends as much of b in DATA frames as the windows allow, and returns the rest.
func (g *grpcStream) data(out, b []byte) (sent, rest []byte) {
	for len(b) > 0 {
		n := min(len(b), g.mostData, int(max(0, min(g.send, g.sendAll))))
		if n == 0 {
			break
		}
		out = append(appendH2(out, n, http2.FrameData, 0, theStream), b[:n]...)
		b = b[n:]
		g.send, g.sendAll = g.send-int64(n), g.sendAll-int64(n)
	}
	return out, b
}

func (g *grpcStream) reply(out []byte) []byte {
	out = append(out, g.replies...)
	g.replies = g.replies[:0]
	if len(g.kept) > 0 {
		var rest []byte
		out, rest = g.data(out, g.kept)
		g.kept = append(g.kept[:0], rest...)
	}
	if g.leaving && g.opened && !g.closed && len(g.kept) == 0 {
		g.closed = true
		out = appendH2(out, 0, http2.FrameData, http2.FlagDataEndStream, theStream)
	}
	if g.taken >= h2Ours/2 {
		out = appendH2Number(out, http2.FrameWindowUpdate, 0, uint32(g.taken))
		out = appendH2Number(out, http2.FrameWindowUpdate, theStream, uint32(g.taken))
		g.taken = 0
	}
	return out
}

func (g *grpcStream) size() int64 { return int64(binary.BigEndian.Uint32(g.prefix[1:])) }

func (g *grpcStream) blocked() bool { return len(g.kept) > 0 }

func (g *grpcStream) partial() bool {
	return g.have > 0 || g.body > 0 || g.left > 0 || len(g.kept) > 0 || g.inBlock
}

func (g *grpcStream) next(b []byte) (n int, what unit, err error) {
	if g.left > 0 {
		return g.content(b)
	}
	if len(b) < frameHead {
		return 0, unitNone, nil
	}
	length := int(b[0])<<16 | int(b[1])<<8 | int(b[2])
	kind, flags, id := http2.FrameType(b[3]), http2.Flags(b[4]), binary.BigEndian.Uint32(b[5:])&h2MaxWindow
	if length > h2Frame {
		return 0, unitNone, fmt.Errorf("http2: a frame of %d bytes, more than %d", length, h2Frame)
	}
	if kind == http2.FrameData {
		return g.begin(b, length, flags, id)
	}
	if len(b) < frameHead+length {
		return 0, unitNone, nil
	}
	what, err = g.control(b[:frameHead+length])
	return frameHead + length, what, err
}

// begin parses the header of a DATA frame, and how much padding it has.
func (g *grpcStream) begin(b []byte, length int, flags http2.Flags, id uint32) (n int, what unit, err error) {
	n = frameHead
	if id != theStream || !g.opened || g.inBlock {
		return 0, unitNone, fmt.Errorf("http2: data on stream %d", id)
	}
	g.taken += int64(length)
	if g.taken > h2Ours {
		return 0, unitNone, errors.New("http2: more data than the window allows")
	}
	g.padding = 0
	if flags&http2.FlagDataPadded != 0 {
		if len(b) < frameHead+1 {
			g.taken -= int64(length)
			return 0, unitNone, nil
		}
		g.padding = int64(b[frameHead])
		n, length = n+1, length-1
		if int64(length) < g.padding {
			return 0, unitNone, errors.New("http2: a DATA frame has more padding than bytes")
		}
	}
	g.left, g.last = int64(length), flags&http2.FlagDataEndStream != 0
	if g.left == 0 && g.last {
		return n, unitNone, errors.New("grpc: the server ended the stream without a status")
	}
	return n, unitNone, nil
}

// content consumes bytes of a DATA frame, at most to the end of a message.
func (g *grpcStream) content(b []byte) (n int, what unit, err error) {
	n = int(min(int64(len(b)), g.left-g.padding))
	if n == 0 && g.left == g.padding { // only padding is left
		n = int(min(int64(len(b)), g.left))
		g.left, g.padding = g.left-int64(n), g.padding-int64(n)
		return n, unitNone, g.unended()
	}
	if g.have < grpcPrefix {
		n = copy(g.prefix[g.have:], b[:n])
		g.have += n
		if g.have == grpcPrefix {
			size := binary.BigEndian.Uint32(g.prefix[1:])
			if g.prefix[0] != 0 || size > maxPayloadBytes {
				return n, unitNone, fmt.Errorf("grpc: a message with compression %d and %d bytes", g.prefix[0], size)
			}
			g.body = int64(size)
		}
	} else {
		n = int(min(int64(n), g.body))
		g.body -= int64(n)
	}
	g.left -= int64(n)
	if g.have == grpcPrefix && g.body == 0 {
		g.have, what = 0, unitMessage
	}
	return n, what, g.unended()
}

// unended rejects a stream that ends with data: gRPC ends with trailers.
func (g *grpcStream) unended() error {
	if g.left == 0 && g.last {
		return errors.New("grpc: the server ended the stream without a status")
	}
	return nil
}

// control handles a complete frame other than DATA.
func (g *grpcStream) control(frame []byte) (unit, error) {
	g.frame.Reset(frame)
	parsed, err := g.framer.ReadFrame()
	if err != nil {
		return unitNone, fmt.Errorf("http2: %w", cmp.Or(g.framer.ErrorDetail(), err))
	}
	switch f := parsed.(type) {
	case *http2.SettingsFrame:
		return unitNone, g.settings(f)
	case *http2.PingFrame:
		if !f.IsAck() {
			g.replies = append(appendH2(g.replies, len(f.Data), http2.FramePing, http2.FlagPingAck, 0), f.Data[:]...)
		}
	case *http2.WindowUpdateFrame:
		window := &g.sendAll
		if f.StreamID == theStream {
			window = &g.send
		} else if f.StreamID != 0 {
			return unitNone, nil
		}
		if *window += int64(f.Increment); *window > h2MaxWindow {
			return unitNone, errors.New("http2: a window of more than 2 GiB")
		}
	case *http2.RSTStreamFrame:
		switch {
		case f.StreamID != theStream:
		case f.ErrCode == http2.ErrCodeRefusedStream:
			return unitMoved, nil // it read nothing
		default:
			return unitNone, &kindError{failReset, fmt.Errorf("the stream was reset: %v", f.ErrCode)}
		}
	case *http2.GoAwayFrame:
		return g.goAway(f)
	case *http2.HeadersFrame:
		g.block, g.ends = g.block[:0], f.StreamEnded()
		return g.headers(f.StreamID, f.HeaderBlockFragment(), f.HeadersEnded())
	case *http2.ContinuationFrame:
		return g.headers(f.StreamID, f.HeaderBlockFragment(), f.HeadersEnded())
	case *http2.PushPromiseFrame:
		return unitNone, errors.New("http2: a push that was not allowed")
	}
	return unitNone, nil
}

func (g *grpcStream) settings(f *http2.SettingsFrame) error {
	if f.IsAck() {
		return nil
	}
	err := f.ForeachSetting(func(s http2.Setting) error {
		switch s.ID {
		case http2.SettingInitialWindowSize:
			g.send += int64(s.Val) - g.initial
			g.initial = int64(s.Val)
		case http2.SettingMaxFrameSize:
			g.mostData = int(s.Val)
		}
		return s.Valid()
	})
	if err != nil {
		return fmt.Errorf("http2: settings: %w", err)
	}
	g.replies = appendH2(g.replies, 0, http2.FrameSettings, http2.FlagSettingsAck, 0)
	return nil
}

// goAway handles the announcement that the connection ends. A server that keeps the stream answers
// what it has been sent, after which it ends the stream.
func (g *grpcStream) goAway(f *http2.GoAwayFrame) (unit, error) {
	if f.ErrCode != http2.ErrCodeNo {
		return unitNone, &kindError{failReset, fmt.Errorf("the connection ends: %v %q", f.ErrCode, cut(f.DebugData()))}
	}
	if f.LastStreamID < theStream {
		return unitMoved, nil // it read nothing
	}
	known := g.leaving
	if g.leaving = true; known || !g.opened { // headers reports it once the stream is open
		return unitNone, nil
	}
	return unitLeaving, nil
}

// headers handles part of the response's headers or trailers, and all of them once they have ended.
func (g *grpcStream) headers(id uint32, part []byte, ended bool) (unit, error) {
	if g.block = append(g.block, part...); id != theStream || len(g.block) > h2MaxBlock {
		return unitNone, fmt.Errorf("http2: a header block on stream %d of %d bytes", id, len(g.block))
	}
	if g.inBlock = !ended; g.inBlock {
		return unitNone, nil
	}
	fields, err := g.decoder.DecodeFull(g.block)
	if err != nil {
		return unitNone, fmt.Errorf("http2: %w", err)
	}
	var status, code, text string
	for _, f := range fields {
		switch f.Name {
		case ":status":
			status = f.Value
		case "grpc-status":
			code = f.Value
		case "grpc-message":
			text = f.Value
		}
	}
	switch n, err := strconv.Atoi(code); {
	case code == "0" && g.ends:
		return unitMoved, nil
	case code != "" && err == nil && n > 0 && n < 100:
		return unitNone, notOpened(n, "gRPC code %d: %.100s", n, text)
	case g.opened && status == "" || code != "":
		return unitNone, fmt.Errorf("grpc: the stream ended with code %.20q", code)
	case strings.HasPrefix(status, "1"):
		return unitNone, nil
	case status != "200":
		n, _ := strconv.Atoi(status)
		return unitNone, notOpened(n, "HTTP status %.20s instead of a gRPC stream", status)
	case g.ends || g.opened:
		return unitNone, errors.New("grpc: the stream ended without a status")
	}
	g.opened = true
	if g.leaving {
		return unitLeaving, nil
	}
	return unitOpened, nil
}
