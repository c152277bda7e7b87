package stream_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/meshtrial/meshtrial/drive/xds/stream"
	"github.com/meshtrial/meshtrial/testing/eventually"
	"github.com/meshtrial/meshtrial/testing/must"
)

// taker records the events of a stream.
type taker struct {
	mu       sync.Mutex
	messages []string
	times    []int64
	status   *stream.Status
	closed   int
}

func (k *taker) Message(b []byte, at int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.messages = append(k.messages, string(b))
	k.times = append(k.times, at)
}

func (k *taker) Closed(s *stream.Status) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.status = s
	k.closed++
}

func (k *taker) got() ([]string, *stream.Status, int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]string(nil), k.messages...), k.status, k.closed
}

// peer is the other end of a connection: a hand-written server.
type peer struct {
	t    *testing.T
	conn net.Conn
	*http2.Framer
}

// dial returns a connection and its peer, which has read the preface.
func dial(t *testing.T, o stream.Options) (*stream.Conn, *peer, chan error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	defer l.Close()
	conn, err := stream.Dial(context.Background(), l.Addr().String(), o)
	must.OK(t, err)
	raw, err := l.Accept()
	must.OK(t, err)
	ended := make(chan error, 1)
	go func() { ended <- conn.Run() }()
	t.Cleanup(func() { raw.Close(); conn.Close() })
	_ = raw.SetDeadline(time.Now().Add(2 * time.Minute))
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(raw, preface); err != nil || string(preface) != http2.ClientPreface {
		t.Fatalf("%q, %v", preface, err)
	}
	return conn, &peer{t: t, conn: raw, Framer: http2.NewFramer(raw, raw)}, ended
}

func options() stream.Options {
	return stream.Options{Window: 64 << 10, Streams: 2, MaxMessage: 1 << 20, ReadBuffer: 16 << 10}
}

func open(t *testing.T, c *stream.Conn) (*stream.Stream, *taker) {
	t.Helper()
	k := &taker{}
	var s *stream.Stream
	var err error
	if e := c.Do(func() {
		s, err = c.Open("/s/M", []stream.Header{{Name: "authorization", Value: strings.Repeat("x", 40_000)}}, k)
	}); e != nil || err != nil {
		t.Fatal(e, err)
	}
	return s, k
}

func (p *peer) headers(id uint32, end bool, fields ...string) {
	var b bytes.Buffer
	enc := hpack.NewEncoder(&b)
	for i := 0; i < len(fields); i += 2 {
		_ = enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	if err := p.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: b.Bytes(), EndHeaders: true, EndStream: end}); err != nil {
		p.t.Error(err)
	}
}

// window sets the initial window of all streams, and waits until the client knows it.
func (p *peer) window(size uint32) {
	p.t.Helper()
	must.OK(p.t, p.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: size}))
	for {
		f, err := p.ReadFrame()
		must.OK(p.t, err)
		if s, ok := f.(*http2.SettingsFrame); ok && s.IsAck() {
			return
		}
	}
}

// data returns the next frame of data.
func (p *peer) data() *http2.DataFrame {
	p.t.Helper()
	for {
		f, err := p.ReadFrame()
		must.OK(p.t, err)
		if d, ok := f.(*http2.DataFrame); ok {
			return d
		}
	}
}

func message(text string) []byte {
	b := make([]byte, 5, 5+len(text))
	binary.BigEndian.PutUint32(b[1:], uint32(len(text)))
	return append(b, text...)
}

// TestMessagesInAnyFrames checks that messages arrive whole and in order,
// however they are cut into frames.
func TestMessagesInAnyFrames(t *testing.T) {
	texts := []string{"", "a", strings.Repeat("b", 100), strings.Repeat("c", 20_000), "d"}
	var all []byte
	for _, one := range texts {
		all = append(all, message(one)...)
	}
	for _, size := range []int{1 << 14, 7000, 3, 6} {
		c, p, _ := dial(t, options())
		_, k := open(t, c)
		p.headers(1, false, ":status", "200")
		before := time.Now().UnixNano()
		if size == 3 {
			all = all[:len(all)-len(message("d"))-len(message(texts[3]))] // short frames of a long message take long
			texts = texts[:3]
		}
		for at := 0; at < len(all); at += size {
			must.OK(t, p.WriteData(1, false, all[at:min(at+size, len(all))]))
		}
		eventually.Holds(t, "all messages", func() bool { got, _, _ := k.got(); return len(got) == len(texts) })
		for i, one := range k.messages {
			if one != texts[i] || k.times[i] < before || k.times[i] > time.Now().UnixNano() {
				t.Errorf("frames of %d: message %d is %.20q at %d", size, i, one, k.times[i])
			}
		}
	}
}

func TestEnds(t *testing.T) {
	for name, tt := range map[string]struct {
		do   func(p *peer)
		code stream.Code
		text string
	}{
		"trailers": {func(p *peer) {
			p.headers(1, false, ":status", "200")
			p.headers(1, true, "grpc-status", "8", "grpc-message", "slowly")
		}, stream.ResourceExhausted, "slowly"},
		"trailers only":   {func(p *peer) { p.headers(1, true, ":status", "200", "grpc-status", "7") }, stream.PermissionDenied, ""},
		"HTTP":            {func(p *peer) { p.headers(1, true, ":status", "503") }, stream.Unavailable, "503"},
		"strange status":  {func(p *peer) { p.headers(1, true, ":status", "200", "grpc-status", "x") }, stream.Unknown, ""},
		"no status":       {func(p *peer) { p.headers(1, true, ":status", "200") }, stream.Unknown, ""},
		"reset":           {func(p *peer) { _ = p.WriteRSTStream(1, http2.ErrCodeRefusedStream) }, stream.Unavailable, "REFUSED"},
		"no trailers":     {func(p *peer) { p.headers(1, false, ":status", "200"); _ = p.WriteData(1, true, nil) }, stream.Internal, "without a status"},
		"going away":      {func(p *peer) { _ = p.WriteGoAway(0, http2.ErrCodeNo, nil) }, stream.Unavailable, "going away"},
		"compressed":      {func(p *peer) { _ = p.WriteData(1, false, []byte{1, 0, 0, 0, 0}) }, stream.Internal, "compressed"},
		"oversized":       {func(p *peer) { _ = p.WriteData(1, false, []byte{0, 0xff, 0, 0, 0}) }, stream.Internal, "more than 1048576"},
		"connection":      {func(p *peer) { p.conn.Close() }, stream.Unavailable, "connection"},
		"no HTTP/2":       {func(p *peer) { _, _ = p.conn.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")) }, stream.Unavailable, "connection"},
		"too wide":        {func(p *peer) { _ = p.WriteWindowUpdate(1, 1<<31-1) }, stream.Internal, "window"},
		"zero window":     {func(p *peer) { _ = p.WriteRawFrame(http2.FrameWindowUpdate, 0, 1, []byte{0, 0, 0, 0}) }, stream.Internal, ""},
		"frame too large": {func(p *peer) { _ = p.WriteRawFrame(http2.FrameData, 0, 1, make([]byte, 20_000)) }, stream.Unavailable, "connection"},
	} {
		c, p, _ := dial(t, options())
		_, k := open(t, c)
		go func() { _, _ = io.Copy(io.Discard, p.conn) }()
		tt.do(p)
		eventually.Holds(t, name, func() bool { _, _, n := k.got(); return n == 1 })
		if _, s, _ := k.got(); s.Code != tt.code || !strings.Contains(s.Message, tt.text) {
			t.Errorf("%s: %v", name, s)
		}
	}
}

// TestOneBadStream checks that another stream of the connection continues.
func TestOneBadStream(t *testing.T) {
	c, p, _ := dial(t, options())
	_, bad := open(t, c)
	_, good := open(t, c)
	go func() { _, _ = io.Copy(io.Discard, p.conn) }()
	_ = p.WriteData(1, false, []byte{9, 9, 9, 9, 9})
	_ = p.WriteData(1, false, message("too late"))
	_ = p.WriteRawFrame(0xfe, 0, 3, []byte("unknown"))
	_ = p.WriteData(3, false, message("fine"))
	eventually.Holds(t, "the good one", func() bool { got, _, _ := good.got(); return len(got) == 1 })
	if got, s, n := bad.got(); len(got) != 0 || s == nil || n != 1 {
		t.Errorf("%q %v %d", got, s, n)
	}
	if c.Streams() != 1 {
		t.Errorf("%d streams", c.Streams())
	}
}

// TestSendWaitsForTheWindow checks that no more is sent than the server
// accepts, and that sent is called when the last byte was sent.
func TestSendWaitsForTheWindow(t *testing.T) {
	c, p, _ := dial(t, options())
	p.window(1000)
	s, _ := open(t, c)
	sent := make(chan int64, 2)
	must.OK(t, c.Do(func() {
		s.Send([]byte(strings.Repeat("x", 1500)), func(at int64) { sent <- at })
		s.Send([]byte("y"), func(at int64) { sent <- at })
	}))
	if n := len(p.data().Data()); n != 1000 || len(sent) != 0 {
		t.Fatalf("%d bytes, %d sent", n, len(sent))
	}
	must.OK(t, p.WriteWindowUpdate(1, 600))
	total := 0
	for total < 505+6 {
		total += len(p.data().Data())
	}
	for range 2 {
		select {
		case <-sent:
		case <-time.After(time.Minute):
			t.Fatal("nobody said that it was sent")
		}
	}
}

// TestSettingsOpenWindows checks that a stream that waits for its own window
// continues when the server raises the window of all streams without a
// WINDOW_UPDATE (RFC 9113, 6.9.2), as gRPC's servers do once they know how fast
// a connection is.
func TestSettingsOpenWindows(t *testing.T) {
	c, p, _ := dial(t, options())
	settings := func(window uint32) {
		t.Helper()
		must.OK(t, p.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window}))
	}
	// read returns the bytes of each stream once want have arrived.
	read := func(want int) map[uint32]int {
		t.Helper()
		got := map[uint32]int{}
		for total := 0; total < want; {
			d := p.data()
			got[d.StreamID] += len(d.Data())
			total += len(d.Data())
		}
		return got
	}
	p.window(1000)
	first, _ := open(t, c)
	second, _ := open(t, c)
	must.OK(t, c.Do(func() {
		first.Send([]byte(strings.Repeat("x", 1995)), nil)
		second.Send([]byte(strings.Repeat("y", 2995)), nil)
	}))
	if got := read(2000); got[1] != 1000 || got[3] != 1000 {
		t.Fatalf("%v bytes through windows of 1000", got)
	}
	_ = p.conn.SetDeadline(time.Now().Add(20 * time.Second))
	settings(2500)
	if got := read(2500); got[1] != 1000 || got[3] != 1500 {
		t.Errorf("%v bytes more through windows of 2500", got)
	}
	settings(3000)
	if got := read(500); got[3] != 500 {
		t.Errorf("%v bytes more through windows of 3000", got)
	}
}

// TestSendThroughSmallWindows checks that a message arrives whole and in order
// through windows of a few bytes, and that one that is copied to wait arrives
// as it was when it was sent.
func TestSendThroughSmallWindows(t *testing.T) {
	for _, window := range []uint32{1, 3, 5, 7, 100, 20_000} {
		c, p, _ := dial(t, options())
		p.window(window)
		s, _ := open(t, c)
		shared := strings.Repeat("shared", 10)
		changed := []byte("copied")
		must.OK(t, c.Do(func() {
			s.SendShared([]byte(shared))
			s.Send(changed, nil)
			copy(changed, "XXXXXX")
			s.SendShared(nil)
			s.Send([]byte("last"), nil)
		}))
		want := string(slices.Concat(message(shared), message("copied"), message(""), message("last")))
		var got []byte
		for len(got) < len(want) {
			d := p.data()
			got = append(got, d.Data()...)
			must.OK(t, p.WriteWindowUpdate(1, uint32(len(d.Data()))))
		}
		if string(got) != want {
			t.Errorf("window %d: %q", window, got)
		}
		pending := -1
		if err := c.Do(func() { pending = s.Pending() }); err != nil || pending != 0 {
			t.Errorf("window %d: %d messages wait, %v", window, pending, err)
		}
	}
}

// TestPausedStreamKeepsItsWindow checks that a paused stream returns no bytes.
func TestPausedStreamKeepsItsWindow(t *testing.T) {
	o := options()
	o.Window = 8 << 10
	c, p, _ := dial(t, o)
	s, k := open(t, c)
	_, other := open(t, c)
	updates := make(chan uint32, 100)
	go func() {
		for {
			f, err := p.ReadFrame()
			if err != nil {
				return
			}
			if u, ok := f.(*http2.WindowUpdateFrame); ok && u.StreamID == 1 {
				updates <- u.Increment
			}
		}
	}()
	must.OK(t, c.Do(s.Pause))
	must.OK(t, p.WriteData(1, false, message(strings.Repeat("x", 6000))))
	// Later data on another stream shows that it has arrived.
	must.OK(t, p.WriteData(3, false, message("fine")))
	eventually.Holds(t, "the other stream", func() bool { got, _, _ := other.got(); return len(got) == 1 })
	time.Sleep(50 * time.Millisecond)
	if got, _, _ := k.got(); len(got) != 0 || len(updates) != 0 {
		t.Fatalf("%d messages, %d updates while it rests", len(got), len(updates))
	}
	must.OK(t, c.Do(s.Resume))
	if got, _, _ := k.got(); len(got) != 1 {
		t.Errorf("%d messages", len(got))
	}
	select {
	case n := <-updates:
		if n != 6005 {
			t.Errorf("%d bytes given back", n)
		}
	case <-time.After(time.Minute):
		t.Error("nothing given back")
	}
}

// FuzzFrames checks that the connection ends or continues, whatever a server
// sends.
func FuzzFrames(f *testing.F) {
	var b bytes.Buffer
	framer := http2.NewFramer(&b, nil)
	_ = framer.WriteSettings(http2.Setting{ID: http2.SettingMaxFrameSize, Val: 1 << 14})
	_ = framer.WriteData(1, false, message("hello"))
	_ = framer.WriteGoAway(1, http2.ErrCodeNo, nil)
	f.Add(b.Bytes())
	f.Add([]byte{0, 0, 4, 8, 0, 0, 0, 0, 1, 0, 0, 0, 0})
	f.Add([]byte{0, 0, 0, 1, 4, 0, 0, 0, 1})
	f.Add([]byte("HTTP/1.1 200 OK\r\n\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, p, ended := dial(t, options())
		_, k := open(t, c)
		go func() { _, _ = io.Copy(io.Discard, p.conn) }()
		_, _ = p.conn.Write(data)
		_ = p.conn.(*net.TCPConn).CloseWrite()
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Fatal("it does not end")
		}
		if _, _, n := k.got(); n != 1 {
			t.Fatalf("closed %d times", n)
		}
	})
}
