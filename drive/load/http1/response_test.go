package http1

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// outcome is the result of parsing a stream of bytes.
type outcome struct {
	used   int
	status int
	done   bool
	close  bool
	err    error
}

// parse feeds stream in pieces that end at the cuts, as a connection would.
func parse(stream []byte, noBody, eof bool, cuts ...int) outcome {
	p := NewParser(&Cache{}, noBody)
	var pending []byte
	out := outcome{}
	from := 0
	for _, cut := range append(cuts, len(stream)) {
		if cut < from || cut > len(stream) {
			continue
		}
		pending = append(pending, stream[from:cut]...)
		from = cut
		n, done, err := p.Feed(pending)
		out.used += n
		pending = pending[n:]
		if done || err != nil {
			out.done, out.err = done, err
			break
		}
	}
	if !out.done && out.err == nil && eof {
		out.done = p.EOF()
	}
	out.status, out.close = p.Status(), p.Close()
	return out
}

func TestParser(t *testing.T) {
	tests := []struct {
		name   string
		stream string
		noBody bool
		eof    bool
		want   outcome
	}{
		{name: "length", stream: "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", want: outcome{used: 41, status: 200, done: true}},
		{name: "more follows", stream: "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcHTTP", want: outcome{used: 41, status: 200, done: true}},
		{name: "no reason", stream: "HTTP/1.1 404 \r\ncontent-length:0\r\n\r\n", want: outcome{used: 35, status: 404, done: true}},
		{name: "bare line feeds", stream: "HTTP/1.1 200 OK\nContent-Length: 1\n\nx", want: outcome{used: 36, status: 200, done: true}},
		{name: "connection close", stream: "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: foo, Close\r\n\r\n", want: outcome{used: 62, status: 200, done: true, close: true}},
		{name: "1.0 closes", stream: "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", want: outcome{used: 38, status: 200, done: true, close: true}},
		{name: "1.0 kept", stream: "HTTP/1.0 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n", want: outcome{used: 62, status: 200, done: true}},
		{name: "until close", stream: "HTTP/1.1 200 OK\r\n\r\nabc", eof: true, want: outcome{used: 22, status: 200, done: true, close: true}},
		{name: "until close, open", stream: "HTTP/1.1 200 OK\r\n\r\nabc", want: outcome{used: 22, status: 200, close: true}},
		{name: "204", stream: "HTTP/1.1 204 No Content\r\n\r\n", want: outcome{used: 27, status: 204, done: true}},
		{name: "304 with length", stream: "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", want: outcome{used: 48, status: 304, done: true}},
		{name: "head", stream: "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", noBody: true, want: outcome{used: 38, status: 200, done: true}},
		{name: "interim", stream: "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", want: outcome{used: 100, status: 200, done: true}},
		{name: "chunked", stream: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n", want: outcome{used: 79, status: 200, done: true}},
		{name: "chunked with trailer", stream: "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n0\r\nA: b\r\n\r\n", want: outcome{used: 58, status: 200, done: true}},
		{name: "short", stream: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab", want: outcome{used: 40, status: 200}},
		{name: "no HTTP", stream: "SSH-2.0-OpenSSH\r\n", want: outcome{err: ErrStatusLine}},
		{name: "no HTTP, no line", stream: "\x16\x03\x01\x02\x00\x01", want: outcome{err: ErrStatusLine}},
		{name: "version", stream: "HTTP/2.0 200 OK\r\n\r\n", want: outcome{err: ErrVersion}},
		{name: "status", stream: "HTTP/1.1 20x OK\r\n\r\n", want: outcome{err: ErrStatusLine}},
		{name: "continuation", stream: "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", want: outcome{err: ErrHeader}},
		{name: "header name", stream: "HTTP/1.1 200 OK\r\nA b: c\r\n\r\n", want: outcome{err: ErrHeader}},
		{name: "negative length", stream: "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", want: outcome{err: ErrContentLength}},
		{name: "two lengths", stream: "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", want: outcome{err: ErrContentLength}},
		{name: "encoded, then chunked", stream: "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n", want: outcome{used: 64, status: 200, done: true}},
		{name: "encoded, then chunked, in two lines", stream: "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: ,Chunked\r\n\r\n0\r\n\r\n", want: outcome{used: 78, status: 200, done: true}},
		{name: "encoded until close", stream: "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nabc", eof: true, want: outcome{used: 47, status: 200, done: true, close: true}},
		{name: "encoded with a length", stream: "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx", want: outcome{err: ErrTransfer}},
		{name: "chunked, then encoded", stream: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, gzip\r\n\r\n", want: outcome{err: ErrTransfer}},
		{name: "chunked twice", stream: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", want: outcome{err: ErrTransfer}},
		{name: "no encoding", stream: "HTTP/1.1 200 OK\r\nTransfer-Encoding: ,\r\n\r\n", want: outcome{err: ErrTransfer}},
		{name: "1.0 encoded", stream: "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", want: outcome{err: ErrTransfer}},
		{name: "bad chunk", stream: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", want: outcome{used: 48, status: 200, err: ErrChunk}},
		{name: "bad chunk end", stream: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n", want: outcome{used: 53, status: 200, err: ErrChunk}},
		{name: "upgrade", stream: "HTTP/1.1 101 Switching Protocols\r\n\r\n", want: outcome{used: 36, err: ErrSwitch}},
		{name: "endless head", stream: "HTTP/1.1 200 OK\r\nA: " + strings.Repeat("x", MaxHead), want: outcome{err: ErrHeadTooLarge}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := parse([]byte(tt.stream), tt.noBody, tt.eof)
			if tt.want.err != nil {
				if got.err != tt.want.err {
					t.Fatalf("error %v, want %v", got.err, tt.want.err)
				}
				return
			}
			if got != tt.want {
				t.Fatalf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

// TestFault checks that the offending line is found wherever it is.
func TestFault(t *testing.T) {
	for stream, want := range map[string]string{
		"SSH-2.0-OpenSSH\r\n":                                                    "SSH-2.0-OpenSSH",
		"HTTP/1.1 20x OK\r\n\r\n":                                                "HTTP/1.1 20x OK",
		"HTTP/1.1 200 OK\r\nA: b\r\nA b: c\r\nD: e\r\n\r\n":                      "A b: c",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nA\r\n\r\n":              "A",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\nzz\r\n0": "zz",
	} {
		p := NewParser(&Cache{}, false)
		b := []byte(stream)
		n, _, err := p.Feed(b)
		if got := string(p.Fault(b, n)); err == nil || got != want {
			t.Errorf("%q: %q at fault, want %q (%v)", stream, got, want, err)
		}
	}
}

// TestCutsDoNotMatter checks that a response parses the same however it
// arrives.
func TestCutsDoNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		stream := []byte(response(t))
		whole := parse(stream, false, false)
		if whole.err != nil {
			t.Fatalf("%q: %v", stream, whole.err)
		}
		every := make([]int, len(stream))
		for i := range every {
			every[i] = i
		}
		cut := rapid.IntRange(0, len(stream)).Draw(t, "cut")
		for _, cuts := range [][]int{every, {cut}} {
			if got := parse(stream, false, false, cuts...); got != whole {
				t.Fatalf("%q cut: %+v, whole: %+v", stream, got, whole)
			}
		}
	})
}

// response draws a valid response.
func response(t *rapid.T) string {
	body := rapid.StringN(0, 50, 200).Draw(t, "body")
	head := fmt.Sprintf("HTTP/1.1 %d X\r\n", rapid.SampledFrom([]int{200, 201, 404, 503}).Draw(t, "status"))
	for range rapid.IntRange(0, 3).Draw(t, "headers") {
		head += "X-" + rapid.StringMatching(`[A-Za-z]{1,8}: ?[ -~]{0,20}`).Draw(t, "header") + "\r\n"
	}
	if rapid.Bool().Draw(t, "close") {
		head += "Connection: close\r\n"
	}
	if !rapid.Bool().Draw(t, "chunked") {
		return head + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body)
	}
	out := head + "Transfer-Encoding: chunked\r\n\r\n"
	for body != "" {
		n := rapid.IntRange(1, len(body)).Draw(t, "chunk")
		out += fmt.Sprintf("%x\r\n%s\r\n", n, body[:n])
		body = body[n:]
	}
	return out + "0\r\n\r\n"
}

// oracle returns net/http's reading of the same bytes.
func oracle(stream []byte, noBody bool) (status int, used int, closes bool, err error) {
	method := "GET"
	if noBody {
		method = "HEAD"
	}
	in := bytes.NewReader(stream)
	buffered := bufio.NewReaderSize(in, 1<<17)
	for {
		resp, err := http.ReadResponse(buffered, &http.Request{Method: method})
		if err != nil {
			return 0, 0, false, err
		}
		if resp.StatusCode/100 == 1 && resp.StatusCode != 101 {
			continue
		}
		_, err = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode, len(stream) - in.Len() - buffered.Buffered(), resp.Close, err
	}
}

// FuzzParser compares the parser with net/http: a response that the parser
// calls complete, net/http reads with the same status, length and closing.
// Bytes in one piece and bytes one at a time must give the same result.
func FuzzParser(f *testing.F) {
	for _, seed := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 200 OK\nContent-Length: 1\n\nx",
		"HTTP/1.1 304 X\r\nConnection: close\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n0\r\nA: b\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
	} {
		f.Add([]byte(seed), false)
		f.Add([]byte(seed), true)
	}
	f.Fuzz(func(t *testing.T, stream []byte, noBody bool) {
		whole := parse(stream, noBody, false)
		p := NewParser(&Cache{}, noBody)
		if n, _, err := p.Feed(stream); err != nil {
			p.Fault(stream, n)
		}
		every := make([]int, min(len(stream), 2000))
		for i := range every {
			every[i] = i
		}
		if single := parse(stream, noBody, false, every...); single != whole {
			t.Fatalf("one piece: %+v; byte by byte: %+v", whole, single)
		}
		if whole.err != nil || !whole.done {
			return
		}
		status, used, closes, err := oracle(stream, noBody)
		if err != nil && (strings.Contains(err.Error(), "unsupported transfer encoding") || strings.Contains(err.Error(), "too many transfer encodings")) {
			return // it knows only chunked
		}
		if err != nil {
			t.Fatalf("we accept what net/http does not: %v", err)
		}
		if status != whole.status || closes != whole.close {
			t.Fatalf("net/http: status %d, close %v; ours: %+v", status, closes, whole)
		}
		// net/http does not read what follows the last chunk's line when there
		// are no trailers to keep, so lengths differ by up to a CR LF.
		if d := whole.used - used; d < 0 || d > 2 {
			t.Fatalf("net/http read %d bytes, we %d", used, whole.used)
		}
	})
}

func TestTemplate(t *testing.T) {
	payload := []byte("hello world")
	headers := []Header{{"X-A", "b"}, {"Host", "other"}}
	for _, tt := range []struct {
		method string
		n      int
		close  bool
	}{{"GET", 0, false}, {"GET", 5, true}, {"POST", 0, false}, {"PUT", 11, false}} {
		b := NewTemplate(Request{Method: tt.method, Path: "/a?b=c", Host: "host:80", Headers: headers, Payload: payload[:tt.n], Close: tt.close}).Append(nil)
		req, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(b)))
		if err != nil {
			t.Fatalf("%q: %v", b, err)
		}
		body, err := io.ReadAll(req.Body)
		if err != nil || !bytes.Equal(body, payload[:tt.n]) {
			t.Errorf("%q: body %q, %v", b, body, err)
		}
		if req.Method != tt.method || req.URL.String() != "/a?b=c" || req.Host != "other" || req.Header.Get("X-A") != "b" || req.Close != tt.close || req.UserAgent() != "meshtrial" {
			t.Errorf("%q was read as %+v", b, req)
		}
	}
}
