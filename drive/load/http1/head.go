package http1

import (
	"bytes"
	"errors"
)

// MaxHead limits a response's status line and headers, in bytes.
const MaxHead = 64 << 10

// Errors of invalid responses. They are preallocated, so that a server that
// sends nonsense causes no allocation.
var (
	ErrHeadTooLarge  = errors.New("http1: response headers larger than 64 KiB")
	ErrStatusLine    = errors.New("http1: malformed status line")
	ErrVersion       = errors.New("http1: neither HTTP/1.0 nor HTTP/1.1")
	ErrHeader        = errors.New("http1: malformed header line")
	ErrContentLength = errors.New("http1: bad or contradicting Content-Length")
	ErrTransfer      = errors.New("http1: malformed or misplaced transfer encoding")
	ErrChunk         = errors.New("http1: malformed chunk")
	ErrSwitch        = errors.New("http1: server switches protocols unasked")
)

// errShort is returned while the head is incomplete.
var errShort = errors.New("http1: short")

// Special body lengths of a head.
const (
	untilClose = -1
	chunked    = -2
)

// head holds the relevant parts of a status line and headers.
type head struct {
	status int
	length int64 // of the body, or untilClose or chunked, not considering the method
	close  bool  // the connection ends after this response
	size   int   // bytes of the head itself; if malformed, those before the offending line
}

// parseHead parses the head at the start of b; it returns errShort if b holds
// no complete one.
func parseHead(b []byte) (head, error) {
	h := head{length: untilClose}
	line, rest, ok := cutLine(b)
	if !ok {
		if len(b) >= 5 && string(b[:5]) != "HTTP/" {
			return h, ErrStatusLine
		}
		return h, errShort
	}
	keepAliveByDefault, err := h.statusLine(line)
	if err != nil {
		return h, err
	}
	f := fields{}
	for {
		line, next, ok := cutLine(rest)
		if !ok {
			return h, errShort
		}
		if len(line) > 0 {
			if err := f.line(line); err != nil {
				h.size = len(b) - len(rest)
				return h, err
			}
		}
		rest = next
		if len(line) == 0 {
			break
		}
	}
	h.size = len(b) - len(rest)
	h.close = f.close || (!keepAliveByDefault && !f.keepAlive)
	switch { // RFC 9112, 6.1 and 6.3
	case f.encoded && (!keepAliveByDefault || !f.chunked && f.hasLength):
		h.size = 0
		return h, ErrTransfer // HTTP/1.0 has no transfer encodings, and Content-Length contradicts them
	case f.chunked:
		h.length = chunked // overrides Content-Length
	case f.encoded: // until the connection ends
	case f.hasLength:
		h.length = f.length
	}
	return h, nil
}

// cutLine returns the line at the start of b without its end, CR LF or a bare
// LF, and what follows it.
func cutLine(b []byte) (line, rest []byte, ok bool) {
	i := bytes.IndexByte(b, '\n')
	if i < 0 {
		return nil, b, false
	}
	line = b[:i]
	if i > 0 && b[i-1] == '\r' {
		line = b[:i-1]
	}
	return line, b[i+1:], true
}

// statusLine parses "HTTP/1.1 200 OK"; http11 distinguishes 1.1 from 1.0.
func (h *head) statusLine(line []byte) (http11 bool, err error) {
	if len(line) < 12 || string(line[:5]) != "HTTP/" || line[8] != ' ' {
		return false, ErrStatusLine
	}
	switch string(line[5:8]) {
	case "1.1":
		http11 = true
	case "1.0":
	default:
		return false, ErrVersion
	}
	for _, c := range line[9:12] {
		if c < '0' || c > '9' {
			return false, ErrStatusLine
		}
		h.status = h.status*10 + int(c-'0')
	}
	if h.status < 100 || (len(line) > 12 && line[12] != ' ') {
		return false, ErrStatusLine
	}
	return http11, nil
}

// fields collects the headers that frame a message.
type fields struct {
	length                      int64
	hasLength, close, keepAlive bool
	encoded                     bool // there are transfer encodings
	chunked                     bool // the last of them is chunked
}

// line parses one header line.
func (f *fields) line(line []byte) error {
	colon := bytes.IndexByte(line, ':')
	if colon <= 0 {
		return ErrHeader // also a continuation line, which RFC 9112 forbids
	}
	name, value := line[:colon], trim(line[colon+1:])
	for _, c := range name {
		if !tokenByte[c] {
			return ErrHeader
		}
	}
	for _, c := range value {
		if c < ' ' && c != '\t' || c == 0x7f {
			return ErrHeader
		}
	}
	switch len(name) {
	case len("connection"):
		if equalFold(name, "connection") {
			f.connection(value)
		}
	case len("content-length"):
		if equalFold(name, "content-length") {
			n, ok := parseLength(value)
			if !ok || (f.hasLength && n != f.length) {
				return ErrContentLength
			}
			f.length, f.hasLength = n, true
		}
	case len("transfer-encoding"):
		if equalFold(name, "transfer-encoding") {
			return f.transfer(value)
		}
	}
	return nil
}

// transfer parses the transfer encodings of one line. Only chunked matters
// here: it determines where the body ends, so nothing may follow it.
func (f *fields) transfer(value []byte) error {
	for len(value) > 0 {
		var item []byte
		if item, value = cutItem(value); len(item) == 0 {
			continue
		}
		if f.chunked {
			return ErrTransfer
		}
		f.encoded, f.chunked = true, equalFold(item, "chunked")
	}
	if !f.encoded {
		return ErrTransfer
	}
	return nil
}

// cutItem returns the first item of a list separated by commas, and the rest.
func cutItem(list []byte) (item, rest []byte) {
	if i := bytes.IndexByte(list, ','); i >= 0 {
		return trim(list[:i]), list[i+1:]
	}
	return trim(list), nil
}

func (f *fields) connection(value []byte) {
	for len(value) > 0 {
		var item []byte
		item, value = cutItem(value)
		if equalFold(item, "close") {
			f.close = true
		} else if equalFold(item, "keep-alive") {
			f.keepAlive = true
		}
	}
}

func trim(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	for len(b) > 0 && (b[len(b)-1] == ' ' || b[len(b)-1] == '\t') {
		b = b[:len(b)-1]
	}
	return b
}

// parseLength parses a Content-Length: digits only, below 2^62.
func parseLength(b []byte) (int64, bool) {
	if len(b) == 0 || len(b) > 19 {
		return 0, false
	}
	n := int64(0)
	for _, c := range b {
		if c < '0' || c > '9' || n > (1<<62)/10 {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, n < 1<<62
}

// tokenByte marks the bytes of a header name (RFC 9110, 5.6.2).
var tokenByte = func() (t [256]bool) {
	for c := 'a'; c <= 'z'; c++ {
		t[c], t[c-'a'+'A'] = true, true
	}
	for _, c := range "0123456789!#$%&'*+-.^_`|~" {
		t[c] = true
	}
	return t
}()
