package http1

import "strconv"

// Header is one header line.
type Header struct{ Name, Value string }

// Template makes the bytes of requests that differ at most in the size of
// their payload.
type Template struct {
	head    []byte // up to where Content-Length goes
	payload []byte
	length  bool // whether Content-Length is sent for an empty payload too
}

// NewTemplate returns a Template. path is in the form of a request line,
// host that of a Host header, unless headers has one. The payload must not be
// changed afterwards. With closing, every request asks to close the
// connection after the response.
func NewTemplate(method, path, host string, headers []Header, payload []byte, closing bool) *Template {
	b := make([]byte, 0, 256)
	b = append(b, method...)
	b = append(b, ' ')
	b = append(b, path...)
	b = append(b, " HTTP/1.1\r\n"...)
	given := func(name string) bool {
		for _, h := range headers {
			if equalFold(h.Name, name) {
				return true
			}
		}
		return false
	}
	if !given("host") {
		b = append(b, "Host: "...)
		b = append(b, host...)
		b = append(b, "\r\n"...)
	}
	if !given("user-agent") {
		b = append(b, "User-Agent: meshtrial\r\n"...)
	}
	for _, h := range headers {
		b = append(b, h.Name...)
		b = append(b, ": "...)
		b = append(b, h.Value...)
		b = append(b, "\r\n"...)
	}
	if closing {
		b = append(b, "Connection: close\r\n"...)
	}
	length := method == "POST" || method == "PUT" || method == "PATCH"
	return &Template{head: b, payload: payload, length: length}
}

// Append appends the request with the first n bytes of the payload to dst; n
// is at most the payload's length.
func (t *Template) Append(dst []byte, n int) []byte {
	return t.AppendRest(t.AppendHead(dst), n)
}

// AppendHead appends what comes before header lines of a single request.
func (t *Template) AppendHead(dst []byte) []byte { return append(dst, t.head...) }

// AppendRest appends what follows them; see [Template.Append].
func (t *Template) AppendRest(dst []byte, n int) []byte {
	if n > 0 || t.length {
		dst = append(dst, "Content-Length: "...)
		dst = strconv.AppendInt(dst, int64(n), 10)
		dst = append(dst, "\r\n"...)
	}
	dst = append(dst, "\r\n"...)
	return append(dst, t.payload[:n]...)
}

// equalFold compares ASCII without regard to case; lower is in lower case.
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
