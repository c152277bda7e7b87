package worker

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/meshtrial/meshtrial/drive/worker/control"
	"github.com/meshtrial/meshtrial/study/protocol"
	"github.com/meshtrial/meshtrial/testing/eventually"
	"github.com/meshtrial/meshtrial/testing/must"
	"github.com/meshtrial/meshtrial/testing/scriptconn"
)

// panics records panics, which net/http writes to its log and drops.
type panics struct {
	slog.Handler
	mu    sync.Mutex
	first string
}

func (p *panics) Enabled(context.Context, slog.Level) bool { return true }
func (p *panics) Handle(_ context.Context, r slog.Record) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.first == "" && strings.Contains(r.Message, "panic") {
		p.first = r.Message
	}
	return nil
}

// scripted is a worker without sockets: its servers, by the listeners' names.
type scripted struct {
	*Worker
	listeners map[string]*scriptconn.Listener
	panics    *panics
}

// plainListeners lists the listeners without TLS: what TLS does with bytes is not our code.
func plainListeners() []string {
	out := []string{"health"}
	for _, e := range protocol.Endpoints() {
		if !e.TLS {
			out = append(out, e.Listener)
		}
	}
	return out
}

func newScripted(f *testing.F, config control.Config) *scripted {
	f.Helper()
	s := &scripted{listeners: map[string]*scriptconn.Listener{}, panics: &panics{Handler: slog.DiscardHandler}}
	var err error
	s.Worker, err = New(Options{Health: "127.0.0.1:0", Config: config, Log: slog.New(s.panics),
		MaxHeaderBytes: 16 << 10, MaxBodyBytes: 64 << 10, BodyMemoryBytes: 128 << 10})
	must.OK(f, err)
	f.Cleanup(s.Close)
	for _, part := range s.parts() {
		for _, name := range plainListeners() {
			if part.name != name {
				continue
			}
			l := scriptconn.Listen()
			var listener net.Listener = l
			if part.counted != nil {
				listener = &countingListener{Listener: l, p: part.counted, all: &s.counters.openConnections, limit: 10}
			}
			server, err := part.build(s.Worker, listener)
			must.OK(f, err)
			go func() { _ = server.serve() }() // until end
			f.Cleanup(server.end)
			s.listeners[name] = l
		}
	}
	return s
}

// FuzzServers checks that, whatever a client sends to the servers of a worker,
// they answer no more than was asked for, end the connection, and keep none of
// the data. The TCP server echoes what it received.
func FuzzServers(f *testing.F) {
	names := plainListeners()
	for which := range names {
		for _, seed := range serverSeeds(f) {
			f.Add(byte(which), uint8(0), seed)
			f.Add(byte(which)|0x80, uint8(1), seed)
		}
	}
	const message = 7
	workers := []*scripted{newScripted(f, control.Config{ResponseBytes: control.EchoBody}),
		newScripted(f, control.Config{ResponseBytes: 100, TCPMessageBytes: message})}
	f.Fuzz(func(t *testing.T, which byte, pieces uint8, say []byte) {
		if len(say) > 64<<10 {
			return
		}
		w, fixed := workers[0], which&0x80 != 0
		if fixed {
			w = workers[1]
		}
		name := names[int(which&0x7f)%len(names)]
		c := scriptconn.New(say, int(pieces), 8<<10+50*len(say))
		w.listeners[name].Come(c)
		eventually.Holds(t, name+": the connection ends", func() bool {
			select {
			case <-c.Closed():
				return true
			default:
				return false
			}
		})
		eventually.Holds(t, name+": nothing is held", func() bool {
			return w.counters.inFlight.Load() == 0 && w.counters.openConnections.Load() == 0 && w.bodies.left.Load() == w.options.BodyMemoryBytes
		})
		w.panics.mu.Lock()
		defer w.panics.mu.Unlock()
		heard, over := c.Heard()
		if w.panics.first != "" {
			t.Errorf("%s: %s", name, w.panics.first)
			w.panics.first = ""
		}
		if over {
			t.Errorf("%s: more than %d bytes in answer to %d", name, len(heard), len(say))
		}
		if name == protocol.TCP {
			want := say
			if fixed {
				want = say[:len(say)-len(say)%message]
			}
			if !bytes.Equal(heard, want) {
				t.Errorf("%q came back as %q", want, heard)
			}
		}
	})
}

// serverSeeds returns the beginnings of typical client input for each protocol.
func serverSeeds(f *testing.F) [][]byte {
	f.Helper()
	seeds := [][]byte{
		[]byte("GET / HTTP/1.1\r\nHost: x\r\nX-Request-Id: 1\r\n\r\nGET /a HTTP/1.0\r\n\r\n"),
		[]byte("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\nhelloGET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"),
		[]byte("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTrailer: A\r\n\r\n5\r\nhello\r\n0\r\nA: b\r\n\r\n"),
		[]byte("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 70000\r\n\r\nfew"),
		[]byte("GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n"),
		[]byte("HEAD / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("y", 20<<10) + "\r\n\r\n"),
		[]byte("a message, and the beginning of another"),
		nil,
	}
	for _, call := range []bool{false, true} {
		var b bytes.Buffer
		b.WriteString(http2.ClientPreface)
		framer := http2.NewFramer(&b, nil)
		fields := []string{":method", "POST", ":scheme", "http", ":path", "/", ":authority", "x", "content-length", "5"}
		body := []byte("hello")
		if call {
			fields = []string{":method", "POST", ":scheme", "http", ":path", protocol.GRPCPath, ":authority", "x",
				"content-type", "application/grpc", "te", "trailers", "grpc-timeout", "1S"}
			body = append(binary.BigEndian.AppendUint32([]byte{0}, 5), body...)
		}
		var block bytes.Buffer
		encoder := hpack.NewEncoder(&block)
		for i := 0; i < len(fields); i += 2 {
			must.OK(f, encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}))
		}
		half := block.Len() / 2
		err := errors.Join(
			framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20}), framer.WriteSettingsAck(),
			framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes()[:half]}),
			framer.WriteContinuation(1, true, block.Bytes()[half:]),
			framer.WriteData(1, true, body), framer.WritePing(false, [8]byte{1}), framer.WriteWindowUpdate(0, 100),
			framer.WriteRSTStream(1, http2.ErrCodeCancel), framer.WriteGoAway(0, http2.ErrCodeNo, []byte(strconv.Itoa(1))),
		)
		must.OK(f, err)
		seeds = append(seeds, b.Bytes())
	}
	return seeds
}
