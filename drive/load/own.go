package load

import (
	"maps"
	"net/http"
	"strconv"
)

// requestIDHeader is the header in which proxies forward a request's id.
const requestIDHeader = "x-request-id"

// own holds the headers that differ between the requests of a run.
type own struct {
	prefix string // of the id; "" for none
	key    HeaderKey
}

func newOwn(spec *Spec) own {
	o := own{prefix: spec.RequestID}
	if spec.HeaderKey != nil {
		o.key = *spec.HeaderKey
	}
	return o
}

func (o *own) any() bool { return o.prefix != "" || o.key.Values > 0 }

// appendKey appends the value of the key header of request n.
func (o *own) appendKey(b []byte, n int64) []byte {
	b = append(b, "key-"...)
	return strconv.AppendInt(b, n%int64(o.key.Values), 10)
}

// lines appends the header lines of request n in HTTP/1.1 form.
func (o *own) lines(b []byte, n int64) []byte {
	if o.prefix != "" {
		b = append(b, requestIDHeader+": "...)
		b = appendRequestID(b, o.prefix, n)
		b = append(b, "\r\n"...)
	}
	if o.key.Values > 0 {
		b = append(b, o.key.Name...)
		b = append(b, ": "...)
		b = o.appendKey(b, n)
		b = append(b, "\r\n"...)
	}
	return b
}

// header returns the headers of request n, including the common ones.
func (o *own) header(common http.Header, n int64) http.Header {
	if !o.any() {
		return common
	}
	h := maps.Clone(common)
	if o.prefix != "" {
		h.Set(requestIDHeader, RequestID(o.prefix, n))
	}
	if o.key.Values > 0 {
		h.Set(o.key.Name, string(o.appendKey(nil, n)))
	}
	return h
}
