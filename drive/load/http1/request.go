package http1

import (
	"slices"
	"strconv"
)

// Header is one header line.
type Header struct{ Name, Value string }

// Request holds what all requests of a [Template] have in common.
type Request struct {
	Method  string
	Path    string // as in the request line
	Host    string // value of the Host header, unless Headers has one
	Headers []Header
	Payload []byte // must not be changed
	Close   bool   // ask to close the connection after the response
}

// Template encodes requests that differ only in some headers.
type Template struct {
	head    []byte // up to Content-Length
	payload []byte
	length  bool // send Content-Length also for an empty payload
}

// NewTemplate returns the Template of a request.
func NewTemplate(r Request) *Template {
	b := make([]byte, 0, 256)
	b = append(b, r.Method...)
	b = append(b, ' ')
	b = append(b, r.Path...)
	b = append(b, " HTTP/1.1\r\n"...)
	given := func(name string) bool {
		return slices.ContainsFunc(r.Headers, func(h Header) bool { return equalFold(h.Name, name) })
	}
	if !given("host") {
		b = append(b, "Host: "...)
		b = append(b, r.Host...)
		b = append(b, "\r\n"...)
	}
	if !given("user-agent") {
		b = append(b, "User-Agent: meshtrial\r\n"...)
	}
	for _, h := range r.Headers {
		b = append(b, h.Name...)
		b = append(b, ": "...)
		b = append(b, h.Value...)
		b = append(b, "\r\n"...)
	}
	if r.Close {
		b = append(b, "Connection: close\r\n"...)
	}
	length := r.Method == "POST" || r.Method == "PUT" || r.Method == "PATCH"
	return &Template{head: b, payload: r.Payload, length: length}
}

// Append appends a request to dst.
func (t *Template) Append(dst []byte) []byte { return t.AppendRest(t.AppendHead(dst)) }

// AppendHead appends what precedes the header lines specific to a request.
func (t *Template) AppendHead(dst []byte) []byte { return append(dst, t.head...) }

// AppendRest appends what follows them; see [Template.Append].
func (t *Template) AppendRest(dst []byte) []byte {
	if len(t.payload) > 0 || t.length {
		dst = append(dst, "Content-Length: "...)
		dst = strconv.AppendInt(dst, int64(len(t.payload)), 10)
		dst = append(dst, "\r\n"...)
	}
	dst = append(dst, "\r\n"...)
	return append(dst, t.payload...)
}

// equalFold compares ASCII case-insensitively; lower is in lower case.
func equalFold[T string | []byte](s T, lower string) bool {
	if len(s) != len(lower) {
		return false
	}
	for i := 0; i < len(lower); i++ {
		c := s[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}
