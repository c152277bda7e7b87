package load

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"golang.org/x/sys/unix"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study/protocol"
	"github.com/meshtrial/meshtrial/testing/must"
)

// troubled is a server whose connections fail in one way. It speaks HTTP/1.1,
// HTTP/2 and gRPC frame by frame, so that it knows which requests it accepted.
type troubled struct {
	t      *testing.T
	speaks string
	tls    *tls.Config // nil: plain text
	addr   string
	fault  fault
	done   chan struct{}
	all    sync.WaitGroup

	mu       sync.Mutex
	listener net.Listener
	conns    map[net.Conn]bool
	silent   map[net.Conn]bool
	taken    map[string]int // requests by id
	asked    int            // requests seen, accepted or not
	held     chan struct{}  // open while all connections are silent; nil before
	down     func()         // called once when a restart, or silence of all, begins
	up       time.Time      // when it ended
}

// fault is how a troubled server treats its connections.
type fault struct {
	name    string
	idle    time.Duration // closes connections that are idle for this long
	goAway  int           // ends each connection with the request of this number, which HTTP/2 does not accept
	code    http2.ErrCode // the error code of that GOAWAY
	refuse  int           // refuses the request of this number on each connection
	silence int           // at this request all current connections fall silent permanently
	hold    int           // after this request the server falls silent, and answers later
	restart int           // at this request the server dies, and comes back later
	change  func(*Spec)
}

func newTroubled(t *testing.T, speaks string, secure bool, f fault) *troubled {
	s := &troubled{t: t, speaks: speaks, fault: f, done: make(chan struct{}), conns: map[net.Conn]bool{}, silent: map[net.Conn]bool{}, taken: map[string]int{}, addr: "127.0.0.1:0"}
	if secure {
		lender := httptest.NewTLSServer(nil)
		s.tls = &tls.Config{Certificates: lender.TLS.Certificates, NextProtos: []string{protocol.Of(speaks).ALPN}}
		lender.Close()
	}
	s.listen()
	t.Cleanup(func() {
		close(s.done)
		s.stop()
		s.all.Wait()
	})
	return s
}

func (s *troubled) listen() {
	l, err := net.Listen("tcp", s.addr)
	if err != nil {
		s.t.Error(err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addr, s.listener, s.up = l.Addr().String(), l, time.Now()
	s.all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns[c] = true
			s.mu.Unlock()
			s.all.Go(func() {
				s.serve(c)
				c.Close()
			})
		}
	})
}

// stop closes the listener and every connection.
func (s *troubled) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listener.Close()
	for c := range s.conns {
		c.Close()
	}
	clear(s.conns)
}

func (s *troubled) url() string {
	p := protocol.Of(s.speaks)
	return fmt.Sprintf("%s://%s/", p.Endpoint(s.tls != nil).Scheme, s.addr)
}

// waiting is a connection that ends when it is idle.
type waiting struct {
	net.Conn
	raw  net.Conn // below TLS
	idle time.Duration
}

func (w *waiting) Read(b []byte) (n int, err error) {
	for again := true; again; {
		_ = w.SetReadDeadline(time.Now().Add(w.idle))
		n, err = w.Conn.Read(b)
		again = errors.Is(err, os.ErrDeadlineExceeded) && w.pending()
	}
	return n, err
}

// pending reports whether data arrived at the last moment.
func (w *waiting) pending() bool {
	rc, err := w.raw.(*net.TCPConn).SyscallConn()
	n := 0
	if err == nil {
		err = rc.Control(func(fd uintptr) { n, _, _ = unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT) })
	}
	return err == nil && n > 0
}

func (s *troubled) serve(raw net.Conn) {
	c := raw
	if s.tls != nil {
		secure := tls.Server(raw, s.tls)
		if secure.Handshake() != nil {
			return
		}
		c = secure
		defer c.Close() // notifies the client
	}
	if s.fault.idle > 0 {
		c = &waiting{c, raw, s.fault.idle}
	}
	if s.speaks == protocol.HTTP1 {
		s.serveHTTP1(raw, c)
	} else {
		s.serveHTTP2(raw, c)
	}
}

// fate is the outcome of a request.
type fate int

const (
	answered fate = iota
	last          // answered, and the connection ends
	turnedAway
	unanswered // neither answered nor closed
)

// decide records request n of a connection and decides its fate.
func (s *troubled) decide(raw net.Conn, id string, n int) fate {
	s.mu.Lock()
	held := s.held
	s.mu.Unlock()
	if held != nil {
		select {
		case <-held:
		case <-s.done:
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	f := &s.fault
	switch {
	case f.silence == s.asked:
		for c := range s.conns {
			s.silent[c] = true
		}
	case f.hold == s.asked:
		s.held = make(chan struct{})
		s.all.Go(s.down)
	case f.restart == s.asked:
		s.all.Go(s.down)
	case f.refuse > 0 && s.asked%f.refuse == 0:
		return turnedAway
	case f.goAway == n:
		if s.speaks != protocol.HTTP1 {
			return last
		}
		s.taken[id]++
		return last
	}
	if s.silent[raw] {
		return unanswered
	}
	s.taken[id]++
	return answered
}

func (s *troubled) serveHTTP1(raw, c net.Conn) {
	r := bufio.NewReader(c)
	for n := 1; ; n++ {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, req.Body)
		switch s.decide(raw, req.Header.Get("x-request-id"), n) {
		case answered:
			_, _ = io.WriteString(c, okAnswer)
		case last:
			_, _ = io.WriteString(c, strings.Replace(okAnswer, "\r\n", "\r\nConnection: close\r\n", 1))
			return
		case unanswered:
			<-s.done
			return
		}
	}
}

func (s *troubled) serveHTTP2(raw, c net.Conn) {
	if _, err := io.ReadFull(c, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	framer := http2.NewFramer(c, c)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	_ = framer.WriteSettings()
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	headers := func(stream uint32, end bool, fields ...string) {
		block.Reset()
		for i := 0; i < len(fields); i += 2 {
			_ = encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
		}
		_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: end})
	}
	n, ended := 0, false
	fates := map[uint32]fate{}
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return
		}
		stream, over := frame.Header().StreamID, false
		switch f := frame.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				_ = framer.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				_ = framer.WritePing(true, f.Data)
			}
		case *http2.MetaHeadersFrame:
			if ended {
				continue // above the last stream that was declared accepted
			}
			id := ""
			for _, field := range f.RegularFields() {
				if field.Name == "x-request-id" {
					id = field.Value
				}
			}
			n++
			fates[stream], over = s.decide(raw, id, n), f.StreamEnded()
			switch fates[stream] {
			case last:
				ended = true
				_ = framer.WriteGoAway(max(stream, 2)-2, s.fault.code, nil)
			case turnedAway:
				_ = framer.WriteRSTStream(stream, http2.ErrCodeRefusedStream)
			case unanswered:
				<-s.done
				return
			}
		case *http2.DataFrame:
			over = f.StreamEnded()
		}
		if !over || fates[stream] != answered {
			continue
		}
		if s.speaks == protocol.GRPC {
			headers(stream, false, ":status", "200", "content-type", "application/grpc")
			_ = framer.WriteData(stream, false, make([]byte, 5))
			headers(stream, true, "grpc-status", "0")
		} else {
			headers(stream, true, ":status", "200")
		}
	}
}

// TestConnectionsThatDie tests the protocols against servers whose connections end
// in every usual way. Requests fail in the same way in all protocols, and only
// those that the server accepted, or may have accepted; none is sent twice. go test
// -v prints the table.
func TestConnectionsThatDie(t *testing.T) {
	const timeoutS = 0.5
	faults := []fault{
		{name: "closes idle connections", idle: 40 * time.Millisecond, change: func(s *Spec) {
			s.Connections, s.Rate, s.DurationS, s.Arrival, s.IntervalS = 1, 10, 1.2, Uniform, 0.3
		}},
		{name: "goes away after 20 requests", goAway: 20, change: func(s *Spec) { s.PayloadBytes = 100 }},
		{name: "refuses every 10th request", refuse: 10, change: func(s *Spec) { s.PayloadBytes = 100 }},
		{name: "connections fall silent", silence: 50, change: func(s *Spec) { s.DurationS, s.TimeoutS = 2, timeoutS }},
		{name: "falls silent for a time", hold: 50, change: func(s *Spec) { s.DurationS, s.TimeoutS = 3, timeoutS }},
		{name: "restarts", restart: 50, change: func(s *Spec) { s.DurationS = 2 }},
	}
	var table strings.Builder
	fmt.Fprintf(&table, "%-30s %-6s %-5s %8s %6s %6s  %s\n", "the server", "", "", "requests", "failed", "made", "of these")
	for _, f := range faults {
		var rows [6]string
		t.Run(f.name, func(t *testing.T) {
			var all sync.WaitGroup
			defer all.Wait()
			for i := range rows {
				speaks, secure, name := []string{protocol.HTTP1, protocol.HTTP2, protocol.GRPC}[i/2], i%2 == 1, []string{"plain", "tls"}[i%2]
				if f.refuse > 0 && !protocol.Of(speaks).Multiplexed {
					continue // it has no streams to refuse
				}
				all.Go(func() { // concurrently, however few CPUs there are: they mostly wait
					t.Run(speaks+" "+name, func(t *testing.T) {
						w, kinds := tryFault(t, speaks, secure, f)
						rows[i] = fmt.Sprintf("%-30s %-6s %-5s %8d %6d %6d  %s\n", f.name, speaks, name, w.Scheduled, w.FailedTotal(), w.Connects, kinds)
					})
				})
			}
		})
		for _, row := range rows {
			table.WriteString(row)
		}
	}
	t.Logf("\n%s", table.String())
}

// TestNoServerTakes checks that a request that no connection accepts fails after
// [mostTries], in the same way in every protocol.
func TestNoServerTakes(t *testing.T) {
	for _, f := range []fault{
		{name: "goes away at once", goAway: 1},
		{name: "goes away at once with an error", goAway: 1, code: http2.ErrCodeEnhanceYourCalm},
		{name: "refuses everything", refuse: 1},
	} {
		for _, speaks := range []string{protocol.HTTP2, protocol.GRPC} {
			t.Run(f.name+" "+speaks, func(t *testing.T) {
				s := newTroubled(t, speaks, false, f)
				spec := &Spec{KeepAlive: true, TimeoutS: 30}
				c := dialects[speaks].caller(spec, target{hostPort: s.addr, path: "/a.B/C"}, &dialer{addr: s.addr})
				defer c.close()
				must.OK(t, c.connect(t.Context()))
				out := c.call(t.Context(), 0)
				if !out.failed || out.kind != failReset || out.connections > 2*mostTries {
					t.Errorf("%s after %d connections (%v)", kinds[out.kind], out.connections, out.why)
				}
				s.mu.Lock()
				defer s.mu.Unlock()
				if s.asked > 2*mostTries {
					t.Errorf("sent %d times", s.asked)
				}
			})
		}
	}
}

// tryFault runs 200 requests/s over two connections against a troubled server.
func tryFault(t *testing.T, speaks string, secure bool, f fault) (*Window, string) {
	s := newTroubled(t, speaks, secure, f)
	spec := quick(s.url())
	spec.Protocol, spec.Connections, spec.Rate, spec.RequestID, spec.DurationS = speaks, 2, 200, "r", 0.5
	if secure {
		spec.TLS = &TLS{InsecureSkipVerify: true}
	}
	if f.change != nil {
		f.change(&spec)
	}
	var running *Running
	begun := make(chan struct{})
	s.mu.Lock()
	s.down = func() {
		enough := int64(6)
		if f.restart > 0 {
			enough = 20
			s.stop()
		}
		<-begun
		for running.Progress().Failed < enough {
			select {
			case <-running.Done():
				return
			case <-time.After(time.Millisecond):
			}
		}
		if f.restart > 0 {
			s.listen()
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.up = time.Now()
		close(s.held)
	}
	s.mu.Unlock()
	running = begin(t, spec)
	close(begun)
	r := ended(t, running)
	w := r.Total()
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, n := range s.taken {
		if n > 1 {
			t.Errorf("request %s was made %d times", id, n)
		}
	}
	if w.Completed == 0 || w.Unfinished > 0 {
		t.Errorf("%+v", w.Account)
	}
	f.judge(t, s, r, w)
	var kinds []string
	for kind, n := range w.Failed {
		kinds = append(kinds, fmt.Sprintf("%d %s", n, kind))
	}
	slices.Sort(kinds)
	return w, strings.Join(kinds, ", ")
}

// judge compares the failures with those that the protocol makes unavoidable.
func (f *fault) judge(t *testing.T, s *troubled, r *Result, w *Window) {
	failed := w.FailedTotal()
	switch {
	case f.silence > 0:
		// If a connection carries one request at a time, each loses one. Otherwise
		// every request on a silent connection is lost until a PING stays
		// unanswered, or the first of them has timed out. The other connection may
		// notice later, and the machine may stall.
		unavoidable := int64(r.Spec.Connections)
		if protocol.Of(s.speaks).Multiplexed {
			first := firstFailed(r)
			unavoidable = 0
			for req := range r.Requests.All() {
				if req.SentNS >= first.SentNS-int64(time.Second)/10 && req.SentNS <= first.DoneNS+int64(time.Second)/2 {
					unavoidable++
				}
			}
		}
		if failed == 0 || failed > unavoidable || failed != w.Failed[FailTimeout] {
			t.Errorf("failed: %v, of which %d are unavoidable", w.Failed, unavoidable)
		}
	case f.hold > 0:
		late := 0
		for req := range r.Requests.All() {
			if req.Outcome != OutcomeOK && req.SentNS > int64(s.up.Sub(r.Start)) {
				late++
			}
		}
		if failed < 6 || late > 0 || failed != w.Failed[FailTimeout] {
			t.Errorf("failed: %v, %d of them sent after the silence", w.Failed, late)
		}
	case f.restart > 0:
		// Requests that the server had accepted are lost, and those due while no
		// server listens; then no more, except for gRPC's next attempt.
		late := 0
		for req := range r.Requests.All() {
			if req.Outcome != OutcomeOK && req.SentNS > int64(s.up.Sub(r.Start))+int64(500*time.Millisecond) {
				late++
			}
		}
		if failed < 20 || late > 0 || w.Failed[FailConnect] < failed-10 {
			t.Errorf("failed: %v, %d of them after the server was back", w.Failed, late)
		}
	case failed != 0:
		t.Errorf("failed: %v", w.Failed)
	}
}

// firstFailed returns the request that failed first.
func firstFailed(r *Result) Request {
	first := Request{DoneNS: record.Never}
	for req := range r.Requests.All() {
		if req.Outcome != OutcomeOK && req.Outcome != OutcomeUnfinished && (first.DoneNS == record.Never || req.DoneNS < first.DoneNS) {
			first = req
		}
	}
	return first
}
