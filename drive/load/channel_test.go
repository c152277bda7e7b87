package load

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/meshtrial/meshtrial/study/protocol"
	"github.com/meshtrial/meshtrial/testing/must"
)

// newChannel returns a channel whose stream was requested, and what it sent for that.
func newChannel(t testing.TB, speaks string) (channel, []byte) {
	t.Helper()
	spec := DefaultSpec(protocol.Of(speaks).Plain.Scheme + "://host:80/")
	spec.PayloadBytes = 10
	spec.HeaderKey = &HeaderKey{Name: "x-key", Values: 3}
	to, err := spec.parseTarget()
	must.OK(t, err)
	c := dialects[speaks].channel(&spec, to, 4)
	return c, c.open(nil)
}

// unitsOf has a channel parse bytes in parts of a size, and lists what it found. The last entry is an
// error's text.
func unitsOf(c channel, b []byte, part int) (out []string, replies []byte) {
	var in []byte
	for len(b) > 0 {
		n := min(part, len(b))
		in = append(in, b[:n]...)
		b = b[n:]
		for len(in) > 0 {
			used, what, err := c.next(in)
			if err != nil {
				return append(out, err.Error()), replies
			}
			if what == unitMessage {
				out = append(out, fmt.Sprintf("message of %d", c.size()))
			} else if what != unitNone {
				out = append(out, fmt.Sprint(what))
			}
			replies = c.reply(replies)
			if what == unitMoved {
				return out, replies
			}
			if used == 0 {
				break
			}
			in = in[used:]
		}
	}
	return out, replies
}

// upgraded is an answer that opens a WebSocket.
func upgraded(c channel) []byte {
	return []byte("HTTP/1.1 101 Switching Protocols\r\nUpgrade: WebSocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " + c.(*webSocket).want + "\r\n\r\n")
}

func TestWebSocketFrames(t *testing.T) {
	var long = append([]byte{0x82, 126, 1, 0}, make([]byte, 256)...)
	var longer = append(binary.BigEndian.AppendUint64([]byte{0x82, 127}, 70_000), make([]byte, 70_000)...)
	for _, c := range []struct {
		name string
		in   []byte
		want []string
	}{
		{"messages", []byte{0x82, 0, 0x81, 1, 'x'}, []string{"1", "message of 0", "message of 1"}},
		{"long", append(long, longer...), []string{"1", "message of 256", "message of 70000"}},
		{"fragments with a ping between", []byte{0x02, 1, 'a', 0x89, 1, 'p', 0x00, 0, 0x80, 2, 'b', 'c'}, []string{"1", "message of 3"}},
		{"going away", []byte{0x82, 0, 0x88, 2, 0x03, 0xe9, 0x82, 0}, []string{"1", "message of 0", "4"}},
		{"no code", []byte{0x88, 0}, []string{"1", "4"}},
		{"an error", []byte{0x88, 3, 0x03, 0xf3, 'x'}, []string{"1", `the server closed the WebSocket with code 1011: "x"`}},
		{"masked", []byte{0x82, 0x80, 0, 0, 0, 0}, []string{"1", "websocket: the server masked a frame"}},
		{"reserved bits", []byte{0xc2, 0}, []string{"1", "websocket: reserved bits in a frame: 0xc2"}},
		{"unknown", []byte{0x83, 0}, []string{"1", "websocket: unknown opcode 3"}},
		{"a continuation of nothing", []byte{0x80, 0}, []string{"1", "websocket: a frame of opcode 0 does not belong here"}},
		{"a message in a message", []byte{0x02, 0, 0x82, 0}, []string{"1", "websocket: a frame of opcode 2 does not belong here"}},
		{"a fragmented ping", []byte{0x09, 0}, []string{"1", "websocket: a control frame of opcode 9 is fragmented or too long"}},
		{"a huge frame", []byte{0x82, 127, 0, 0, 1, 0, 0, 0, 0, 0}, []string{"1", "websocket: a frame of 1099511627776 bytes, more than 67108864"}},
	} {
		for _, part := range []int{1, 2, 3, 100, 1 << 20} {
			ws, _ := newChannel(t, protocol.WebSocket)
			got, _ := unitsOf(ws, append(upgraded(ws), c.in...), part)
			if !slices.Equal(got, c.want) {
				t.Errorf("%s, in parts of %d: %q", c.name, part, got)
			}
		}
	}
}

// TestWebSocketMasks checks that what is sent is masked with keys that differ.
func TestWebSocketMasks(t *testing.T) {
	payload := []byte("twenty-one characters")
	a, b := appendFrame(nil, wsBinary, payload), appendFrame(nil, wsBinary, payload)
	if bytes.Equal(a, b) || bytes.Contains(a, payload) || len(a) != 2+4+len(payload) {
		t.Errorf("% x, % x", a, b)
	}
	for i := range payload {
		if c := a[6+i] ^ a[2+i%4]; c != payload[i] {
			t.Errorf("byte %d is %q", i, c)
		}
	}
}

func TestWebSocketHandshake(t *testing.T) {
	ws, sent := newChannel(t, protocol.WebSocket)
	for _, want := range []string{"GET / HTTP/1.1\r\nHost: host:80\r\n", "\r\nUpgrade: websocket\r\n", "\r\nSec-WebSocket-Version: 13\r\n", "\r\nx-key: key-1\r\n", "\r\nSec-WebSocket-Key: "} {
		if !bytes.Contains(sent, []byte(want)) {
			t.Errorf("%q lacks %q", sent, want)
		}
	}
	accept := "Sec-WebSocket-Accept: " + ws.(*webSocket).want + "\r\n"
	for in, want := range map[string]string{
		"HTTP/1.1 503 Busy\r\n\r\n": "HTTP status 503 instead of a WebSocket",
		"HTTP/1.1 101 OK\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\n":                                    "websocket: the server's Sec-WebSocket-Accept does not match the key",
		"HTTP/1.1 101 OK\r\nUpgrade: h2c\r\n" + accept + "\r\n":                                                       `websocket: the server upgraded to "h2c"`,
		"HTTP/1.1 101 OK\r\nUpgrade: websocket\r\nSec-WebSocket-Extensions: permessage-deflate\r\n" + accept + "\r\n": "websocket: the server chose an extension that was not offered",
	} {
		if got, _ := unitsOf(ws, []byte(in), 7); len(got) != 1 || got[0] != want {
			t.Errorf("%q: %q", in, got)
		}
	}
}

// h2Server writes what a server sends.
type h2Server struct {
	bytes.Buffer
	*http2.Framer
	block bytes.Buffer
	enc   *hpack.Encoder
}

func newH2Server() *h2Server {
	s := &h2Server{}
	s.Framer = http2.NewFramer(&s.Buffer, nil)
	s.enc = hpack.NewEncoder(&s.block)
	return s
}

func (s *h2Server) headers(end bool, fields ...string) {
	s.block.Reset()
	for i := 0; i < len(fields); i += 2 {
		_ = s.enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	// In three frames, of which the first is padded.
	b := s.block.Bytes()
	_ = s.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: b[:1], EndStream: end, PadLength: 3, Priority: http2.PriorityParam{StreamDep: 3}})
	_ = s.WriteContinuation(1, false, nil)
	_ = s.WriteContinuation(1, true, b[1:])
}

func TestGRPCStreamFrames(t *testing.T) {
	message := func(n int) []byte {
		return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(n)), make([]byte, n)...)
	}
	for _, c := range []struct {
		name string
		send func(s *h2Server)
		want []string
	}{
		{"messages", func(s *h2Server) {
			_ = s.WriteData(1, false, slices.Concat(message(0), message(5)))
			_ = s.WriteDataPadded(1, false, message(300)[:100], []byte{0, 0})
			_ = s.WriteData(1, false, nil)
			_ = s.WriteDataPadded(1, false, message(300)[100:], make([]byte, 9))
		}, []string{"1", "message of 0", "message of 5", "message of 300"}},
		{"moved", func(s *h2Server) { s.headers(true, "grpc-status", "0") }, []string{"1", "4"}},
		{"an error", func(s *h2Server) { s.headers(true, "grpc-status", "14", "grpc-message", "gone") }, []string{"1", "gRPC code 14: gone"}},
		{"leaving", func(s *h2Server) {
			_ = s.WriteGoAway(1, http2.ErrCodeNo, nil)
			_ = s.WriteData(1, false, message(1))
			_ = s.WriteGoAway(1, http2.ErrCodeNo, nil)
			s.headers(true, "grpc-status", "0")
		}, []string{"1", "3", "message of 1", "4"}},
		{"not read", func(s *h2Server) { _ = s.WriteGoAway(0, http2.ErrCodeNo, nil) }, []string{"1", "4"}},
		{"refused", func(s *h2Server) { _ = s.WriteRSTStream(1, http2.ErrCodeRefusedStream) }, []string{"1", "4"}},
		{"reset", func(s *h2Server) { _ = s.WriteRSTStream(1, http2.ErrCodeInternal) }, []string{"1", "the stream was reset: INTERNAL_ERROR"}},
		{"compressed", func(s *h2Server) { _ = s.WriteData(1, false, []byte{1, 0, 0, 0, 1, 'x'}) }, []string{"1", "grpc: a message with compression 1 and 1 bytes"}},
		{"no trailers", func(s *h2Server) { _ = s.WriteData(1, true, message(0)) }, []string{"1", "grpc: the server ended the stream without a status"}},
		{"another stream", func(s *h2Server) { _ = s.WriteData(3, false, nil) }, []string{"1", "http2: data on stream 3"}},
	} {
		for _, part := range []int{1, 2, 3, 100, 1 << 20} {
			g, _ := newChannel(t, protocol.GRPCStream)
			s := newH2Server()
			_ = s.WriteSettings(http2.Setting{ID: http2.SettingMaxFrameSize, Val: 20_000})
			_ = s.WriteSettingsAck()
			_ = s.WritePing(false, [8]byte{1})
			s.headers(false, ":status", "200", "content-type", "application/grpc")
			c.send(s)
			got, _ := unitsOf(g, s.Bytes(), part)
			if !slices.Equal(got, c.want) {
				t.Errorf("%s, in parts of %d: %q", c.name, part, got)
			}
		}
	}
	g, _ := newChannel(t, protocol.GRPCStream)
	s := newH2Server()
	_ = s.WriteGoAway(1, http2.ErrCodeNo, nil)
	_ = s.WriteGoAway(1, http2.ErrCodeNo, nil)
	s.headers(false, ":status", "200")
	got, replies := unitsOf(g, s.Bytes(), 7)
	if last, _ := http2.ReadFrameHeader(bytes.NewReader(replies)); !slices.Equal(got, []string{"3"}) || last.Type != http2.FrameData || last.Flags != http2.FlagDataEndStream {
		t.Errorf("a GOAWAY before the stream is open: %q, answered by %v", got, last)
	}
	for want, fields := range map[string][]string{
		"HTTP status 503 instead of a gRPC stream": {":status", "503"},
		"gRPC code 12: no such method":             {":status", "200", "grpc-status", "12", "grpc-message", "no such method"},
	} {
		g, _ := newChannel(t, protocol.GRPCStream)
		s := newH2Server()
		s.headers(true, fields...)
		if got, _ := unitsOf(g, s.Bytes(), 10); len(got) != 1 || got[0] != want {
			t.Errorf("%q: %q", fields, got)
		}
	}
}

// A stream whose server asked for its end before the run begins is opened again by then.
func TestStreamsThatLeaveBeforeTheRun(t *testing.T) {
	spec := quick("grpc-stream://" + okServer(t) + "/")
	ls := loopsOf(t, &spec)
	t.Cleanup(ls.close)
	l := ls.loops[0]
	c, on := &l.conns[0], &l.streams.all[0]
	must.OK(t, l.connect(c))
	l.connected(c)
	l.opened(c)
	on.leaving, on.moving = true, true
	l.openAll(0)
	if c.state != held || on.leaving || !on.moving || l.conns[1].state != connecting {
		t.Errorf("in state %d, leaving %v, moving %v; one that was shut in %d", c.state, on.leaving, on.moving, l.conns[1].state)
	}
	c.state = shut // close would close its socket again
}

// TestGRPCStreamWindows checks that messages beyond the peer's windows are kept back.
func TestGRPCStreamWindows(t *testing.T) {
	g, _ := newChannel(t, protocol.GRPCStream)
	s := newH2Server()
	_ = s.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 20})
	s.headers(false, ":status", "200")
	unitsOf(g, s.Bytes(), 1000)
	out := g.reply(nil)
	for range 3 { // 15 bytes each
		out = g.message(out)
	}
	data := func(b []byte) (n int) {
		r := http2.NewFramer(nil, bytes.NewReader(b))
		for {
			f, err := r.ReadFrame()
			if err != nil {
				return n
			}
			if d, ok := f.(*http2.DataFrame); ok {
				n += len(d.Data())
			}
		}
	}
	if n := data(out); n != 20 || !g.partial() {
		t.Errorf("sent %d bytes", n)
	}
	more := newH2Server()
	_ = more.WriteWindowUpdate(1, 1000)
	if _, replies := unitsOf(g, more.Bytes(), 1000); data(replies) != 25 || g.partial() {
		t.Errorf("then %d bytes", data(replies))
	}
}

// FuzzChannels checks that bytes mean the same however they are divided, and that no channel
// consumes more than there is.
func FuzzChannels(f *testing.F) {
	f.Add(uint8(3), []byte{0x82, 1, 'x', 0x02, 1, 'a', 0x89, 1, 'p', 0x80, 0, 0x88, 2, 3, 0xe9}, true)
	s := newH2Server()
	_ = s.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 20})
	s.headers(false, ":status", "200")
	_ = s.WriteDataPadded(1, false, []byte{0, 0, 0, 0, 1, 'x'}, []byte{0})
	_ = s.WriteGoAway(1, http2.ErrCodeNo, nil)
	s.headers(true, "grpc-status", "0")
	f.Add(uint8(7), s.Bytes(), false)
	f.Fuzz(func(t *testing.T, part uint8, b []byte, web bool) {
		listen := func(part int) []string {
			speaks := protocol.GRPCStream
			if web {
				speaks = protocol.WebSocket
			}
			c, _ := newChannel(t, speaks)
			in := b
			if web {
				in = append(upgraded(c), b...)
			}
			out, _ := unitsOf(c, in, part)
			return out
		}
		if whole, parts := listen(len(b)+1000), listen(int(part)+1); !slices.Equal(whole, parts) {
			t.Errorf("%q, in parts of %d %q", whole, int(part)+1, parts)
		}
	})
}

// A run waits for a proxy that has no routes yet, and for nothing else.
func TestRetryable(t *testing.T) {
	for status, passes := range map[int]bool{404: true, 503: true, 403: false, 500: false} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		for _, speaks := range []string{protocol.WebSocket, protocol.HTTP1} {
			spec := DefaultSpec(strings.Replace(server.URL, "http", protocol.Of(speaks).Plain.Scheme, 1))
			spec.Protocol, spec.Rate, spec.DurationS = speaks, 1, 0.01
			_, err := Start(t.Context(), spec, nil)
			if streams := protocol.Of(speaks).Streams; (err != nil) != streams || Retryable(err) != (streams && passes) {
				t.Errorf("%s, status %d: %v", speaks, status, err)
			}
		}
		server.Close()
		spec := DefaultSpec(server.URL)
		if _, err := Start(t.Context(), spec, nil); !Retryable(err) {
			t.Errorf("nothing listens: %v", err)
		}
	}
	if _, err := Start(t.Context(), DefaultSpec("http://nowhere.invalid"), nil); err == nil || Retryable(err) {
		t.Errorf("an unknown name: %v", err)
	}
	for code, passes := range map[int]bool{12: true, 14: true, 16: false} {
		if Retryable(fmt.Errorf("load: %w", notOpened(code, "gRPC code"))) != passes {
			t.Errorf("gRPC code %d", code)
		}
	}
}
