package http1

import "bytes"

// Cache remembers the last head that was parsed, because a server's responses
// have the same head for up to a second (until its Date changes). Parsing is a
// function of the bytes alone, so equal bytes give an equal head. Parsers of
// one goroutine share a Cache. The zero value is ready to use.
type Cache struct {
	bytes []byte
	head  head
}

// maxCached limits the heads worth remembering, in bytes.
const maxCached = 4096

func (c *Cache) parse(b []byte) (head, error) {
	if n := len(c.bytes); n > 0 && len(b) >= n && bytes.Equal(b[:n], c.bytes) {
		return c.head, nil
	}
	h, err := parseHead(b)
	if err == nil && h.size <= maxCached {
		c.bytes = append(c.bytes[:0], b[:h.size]...)
		c.head = h
	}
	return h, err
}

type phase uint8

const (
	inHead      phase = iota
	inBody            // remaining bytes, then done
	inRest            // until the connection ends
	inChunkSize       // hexadecimal digits
	inChunkExt        // after the size, up to the line's end
	inChunkData       // remaining bytes
	inChunkEnd        // CR LF after the data
	inTrailer         // lines up to an empty one
	atEnd
)

// Parser follows one response at a time through the bytes of a connection.
type Parser struct {
	cache     *Cache
	remaining int64
	fault     int   // start of the offending line in the bytes last fed
	line      int32 // bytes of the current line so far
	digits    int32 // of the chunk's size
	status    int16
	phase     phase
	noBody    bool // the request was a HEAD
	close     bool
	cr        bool // the last byte of a line was a CR
	colon     bool // a trailer's name has ended
}

// NewParser returns a parser; noBody means that requests are HEAD, whose
// responses have no body whatever their headers say.
func NewParser(cache *Cache, noBody bool) Parser {
	return Parser{cache: cache, noBody: noBody}
}

// Reset makes the parser ready for the next response on the connection.
func (p *Parser) Reset() {
	*p = Parser{cache: p.cache, noBody: p.noBody}
}

// Status returns the response's status code, once its head has been parsed.
func (p *Parser) Status() int { return int(p.status) }

// Close reports whether the connection cannot be used after this response.
func (p *Parser) Close() bool { return p.close }

// Feed consumes bytes of the response from the start of b. It returns the
// number consumed and whether the response is complete. Unconsumed bytes must
// be fed again, followed by more. After an error the connection is unusable.
func (p *Parser) Feed(b []byte) (n int, done bool, err error) {
	for p.phase == inHead {
		h, err := p.cache.parse(b[n:])
		if err == errShort {
			if len(b)-n >= MaxHead {
				return n, false, ErrHeadTooLarge
			}
			return n, false, nil
		}
		if err != nil {
			p.fault = n + h.size
			return n, false, err
		}
		if h.size > MaxHead {
			return n, false, ErrHeadTooLarge
		}
		n += h.size
		if h.status < 200 {
			if h.status == 101 {
				return n, false, ErrSwitch
			}
			continue // an interim response; the real one follows
		}
		p.begin(h)
	}
	if p.phase == inBody { // the most frequent case by far
		take := min(p.remaining, int64(len(b)-n))
		p.remaining -= take
		n += int(take)
		if p.remaining == 0 {
			p.phase = atEnd
		}
	} else if p.phase != atEnd {
		var used int
		used, err = p.feedOther(b[n:])
		n += used
	}
	return n, p.phase == atEnd, err
}

// Fault returns the line for which Feed rejected b, without its end, as far as
// b contains it. For chunk framing it starts at the start of the line or of b.
func (p *Parser) Fault(b []byte, n int) []byte {
	at := p.fault
	if p.phase != inHead {
		at = max(0, n-1)
		at = bytes.LastIndexByte(b[:at], '\n') + 1
	}
	line, rest, ok := cutLine(b[min(at, len(b)):])
	if !ok {
		return rest
	}
	return line
}

// begin chooses how the body ends (RFC 9112, 6.3).
func (p *Parser) begin(h head) {
	p.status = int16(h.status)
	p.close = h.close
	switch {
	case p.noBody || h.status == 204 || h.status == 304 || h.length == 0:
		p.phase = atEnd
	case h.length == chunked:
		p.phase = inChunkSize
	case h.length == untilClose:
		p.phase = inRest
		p.close = true
	default:
		p.phase = inBody
		p.remaining = h.length
	}
}

// EOF tells the parser that the connection has ended, and reports whether that
// completes the response.
func (p *Parser) EOF() bool {
	if p.phase == inRest {
		p.phase = atEnd
	}
	return p.phase == atEnd
}

func (p *Parser) feedOther(b []byte) (n int, err error) {
	for n < len(b) && p.phase != atEnd {
		if p.phase == inRest {
			return len(b), nil
		}
		if p.phase == inChunkData {
			take := min(p.remaining, int64(len(b)-n))
			p.remaining -= take
			n += int(take)
			if p.remaining == 0 {
				p.phase, p.cr = inChunkEnd, false
			}
			continue
		}
		c := b[n]
		n++
		if err := p.chunkByte(c); err != nil {
			return n, err
		}
	}
	return n, nil
}

// chunkByte parses one byte of a chunk's framing.
func (p *Parser) chunkByte(c byte) error {
	switch p.phase {
	case inChunkSize:
		v := hexValue(c)
		if v >= 0 {
			if p.digits == 15 {
				return ErrChunk
			}
			p.digits++
			p.remaining = p.remaining<<4 | int64(v)
			return nil
		}
		if p.digits == 0 {
			return ErrChunk
		}
		p.phase, p.line, p.cr = inChunkExt, 0, false
		if c != '\r' && c != '\n' && c != ';' && c != ' ' && c != '\t' {
			return ErrChunk
		}
		return p.chunkByte(c)
	case inChunkExt:
		if c == '\n' && p.cr { // a bare LF is an error here, as in net/http
			p.sizeDone()
			return nil
		}
		if c == '\n' || p.cr || p.line == 1024 {
			return ErrChunk // a CR not before LF, or an overlong extension
		}
		p.cr = c == '\r'
		p.line++
	case inChunkEnd:
		if c == '\r' && !p.cr {
			p.cr = true
			return nil
		}
		if c != '\n' || !p.cr {
			return ErrChunk
		}
		p.phase, p.digits, p.remaining = inChunkSize, 0, 0
	case inTrailer:
		if c == '\n' {
			if !p.cr {
				return ErrChunk
			}
			if p.line == 0 {
				p.phase = atEnd
			} else if !p.colon {
				return ErrHeader
			}
			p.line, p.cr, p.colon = 0, false, false
			return nil
		}
		if p.cr {
			return ErrChunk
		}
		if c == '\r' {
			p.cr = true
			return nil
		}
		switch {
		case p.colon:
			if c < ' ' && c != '\t' || c == 0x7f {
				return ErrHeader
			}
		case c == ':' && p.line > 0:
			p.colon = true
		case !tokenByte[c]:
			return ErrHeader
		}
		p.line++
		if p.digits++; p.digits > MaxHead {
			return ErrHeadTooLarge
		}
	}
	return nil
}

func (p *Parser) sizeDone() {
	if p.remaining == 0 {
		p.phase, p.line, p.digits, p.cr = inTrailer, 0, 0, false
		return
	}
	p.phase = inChunkData
}

func hexValue(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
