package load

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"

	"github.com/meshtrial/meshtrial/study/protocol"
)

func init() { dialects[protocol.WebSocket] = dialect{channel: newWebSocket} }

// Opcodes and bits of a frame's header (RFC 6455, 5.2).
const (
	wsContinuation = 0
	wsText         = 1
	wsBinary       = 2
	wsClose        = 8
	wsPing         = 9
	wsPong         = 10

	wsFinal    = 0x80
	wsReserved = 0x70
	wsMasked   = 0x80
	wsControl  = 125 // largest payload of a control frame
)

// Close codes with which a server asks its clients to connect again (RFC 6455, 7.4).
const (
	wsNormal    = 1000
	wsGoingAway = 1001
	wsRestart   = 1012
	wsNoStatus  = 1005 // a close frame without a code
)

// webSocket is the client's side of a WebSocket.
type webSocket struct {
	request []byte // up to the key
	payload []byte
	want    string // the answer to the key

	opened    bool
	left      int64 // bytes of a message's frame still to come
	inMessage bool  // its last frame is still to come
	final     bool  // the frame in left is the last one
	replies   []byte
	bytes     int64 // of the message so far
}

func newWebSocket(spec *Spec, t target, id int) channel {
	var b strings.Builder
	fmt.Fprintf(&b, "GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: meshtrial\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n", t.path, t.hostPort)
	for _, h := range streamHeaders(spec, id) {
		fmt.Fprintf(&b, "%s: %s\r\n", h.Name, h.Value)
	}
	b.WriteString("Sec-WebSocket-Key: ")
	return &webSocket{request: []byte(b.String()), payload: spec.payload()}
}

// streamHeaders returns the headers of the request that opens a stream. All messages of a stream
// have the same key.
func streamHeaders(spec *Spec, id int) []Header {
	out := spec.Headers[:len(spec.Headers):len(spec.Headers)]
	if o := newOwn(spec); o.key.Values > 0 {
		out = append(out, Header{Name: o.key.Name, Value: string(o.appendKey(nil, int64(id)))})
	}
	return out
}

func (w *webSocket) open(out []byte) []byte {
	*w = webSocket{request: w.request, payload: w.payload}
	var nonce [16]byte
	binary.LittleEndian.PutUint64(nonce[:], rand.Uint64())
	binary.LittleEndian.PutUint64(nonce[8:], rand.Uint64())
	key := base64.StdEncoding.EncodeToString(nonce[:])
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")) // RFC 6455, 1.3
	w.want = base64.StdEncoding.EncodeToString(sum[:])
	return append(append(append(out, w.request...), key...), "\r\n\r\n"...)
}

func (w *webSocket) message(out []byte) []byte { return appendFrame(out, wsBinary, w.payload) }

// appendFrame appends a client's frame, masked with a new key (RFC 6455, 5.3).
func appendFrame(out []byte, op byte, payload []byte) []byte {
	out = append(out, wsFinal|op)
	switch n := len(payload); {
	case n <= 125:
		out = append(out, wsMasked|byte(n))
	case n <= 0xffff:
		out = binary.BigEndian.AppendUint16(append(out, wsMasked|126), uint16(n))
	default:
		out = binary.BigEndian.AppendUint64(append(out, wsMasked|127), uint64(n))
	}
	key := rand.Uint32() // from ChaCha8, seeded by the system
	out = binary.LittleEndian.AppendUint32(out, key)
	wide := uint64(key)<<32 | uint64(key)
	for ; len(payload) >= 8; payload = payload[8:] {
		out = binary.LittleEndian.AppendUint64(out, binary.LittleEndian.Uint64(payload)^wide)
	}
	for i, c := range payload {
		out = append(out, c^byte(key>>(8*i%32)))
	}
	return out
}

func (w *webSocket) reply(out []byte) []byte {
	out = append(out, w.replies...)
	w.replies = w.replies[:0]
	return out
}

func (w *webSocket) size() int64 { return w.bytes }

func (w *webSocket) blocked() bool { return false }

func (w *webSocket) partial() bool { return w.inMessage }

func (w *webSocket) next(b []byte) (n int, what unit, err error) {
	switch {
	case !w.opened:
		return w.answer(b)
	case w.left > 0:
		n = int(min(int64(len(b)), w.left))
		w.left -= int64(n)
		return n, w.ended(), nil
	}
	head, length, ok, err := frameHeader(b)
	if !ok || err != nil {
		return 0, unitNone, err
	}
	op := b[0] & 0xf
	if op >= wsClose {
		if len(b) < head+int(length) {
			return 0, unitNone, nil
		}
		what, err = w.control(op, b[head:head+int(length)])
		return head + int(length), what, err
	}
	if (op == wsContinuation) != w.inMessage {
		return 0, unitNone, fmt.Errorf("websocket: a frame of opcode %d does not belong here", op)
	}
	if !w.inMessage {
		w.bytes = 0
	}
	if w.bytes += length; w.bytes > maxPayloadBytes {
		return 0, unitNone, fmt.Errorf("websocket: a message of more than %d bytes", maxPayloadBytes)
	}
	w.inMessage, w.final, w.left = true, b[0]&wsFinal != 0, length
	return head, w.ended(), nil
}

// ended returns the message if its last byte has arrived.
func (w *webSocket) ended() unit {
	if w.left > 0 || !w.final {
		return unitNone
	}
	w.inMessage = false
	return unitMessage
}

// frameHeader parses the header of a server's frame; ok is false if more bytes are needed.
func frameHeader(b []byte) (head int, length int64, ok bool, err error) {
	if len(b) < 2 {
		return 0, 0, false, nil
	}
	op := b[0] & 0xf
	switch {
	case b[0]&wsReserved != 0:
		return 0, 0, false, fmt.Errorf("websocket: reserved bits in a frame: %#x", b[0])
	case op > wsBinary && op < wsClose || op > wsPong:
		return 0, 0, false, fmt.Errorf("websocket: unknown opcode %d", op)
	case b[1]&wsMasked != 0:
		return 0, 0, false, errors.New("websocket: the server masked a frame")
	case op >= wsClose && (b[0]&wsFinal == 0 || b[1] > wsControl):
		return 0, 0, false, fmt.Errorf("websocket: a control frame of opcode %d is fragmented or too long", op)
	}
	switch n := b[1]; {
	case n <= 125:
		return 2, int64(n), true, nil
	case n == 126:
		if len(b) < 4 {
			return 0, 0, false, nil
		}
		return 4, int64(binary.BigEndian.Uint16(b[2:])), true, nil
	}
	if len(b) < 10 {
		return 0, 0, false, nil
	}
	size := binary.BigEndian.Uint64(b[2:])
	if size > maxPayloadBytes {
		return 0, 0, false, fmt.Errorf("websocket: a frame of %d bytes, more than %d", size, maxPayloadBytes)
	}
	return 10, int64(size), true, nil
}

// control handles a control frame.
func (w *webSocket) control(op byte, payload []byte) (unit, error) {
	switch op {
	case wsPing:
		w.replies = appendFrame(w.replies, wsPong, payload)
	case wsClose:
		if len(payload) == 1 {
			return unitNone, errors.New("websocket: a close frame with half a code")
		}
		code := wsNoStatus
		if len(payload) >= 2 {
			code = int(binary.BigEndian.Uint16(payload))
		}
		w.replies = appendFrame(w.replies, wsClose, payload[:min(2, len(payload))])
		switch code {
		case wsNormal, wsGoingAway, wsRestart, wsNoStatus:
			return unitMoved, nil
		}
		return unitNone, notOpened(code, "the server closed the WebSocket with code %d: %q", code, cut(payload[2:]))
	}
	return unitNone, nil
}

// maxAnswer limits the answer to the request that opens a WebSocket, in bytes.
const maxAnswer = 64 << 10

// answer parses the answer to the request that opens the WebSocket.
func (w *webSocket) answer(b []byte) (n int, what unit, err error) {
	end := bytes.Index(b, []byte("\r\n\r\n"))
	switch {
	case end < 0 && len(b) > maxAnswer:
		return 0, unitNone, fmt.Errorf("websocket: more than %d bytes of headers", maxAnswer)
	case end < 0:
		return 0, unitNone, nil
	}
	n = end + 4
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(b[:n])), &http.Request{Method: http.MethodGet})
	switch {
	case err != nil:
		return n, unitNone, fmt.Errorf("websocket: %w", err)
	case resp.StatusCode != http.StatusSwitchingProtocols:
		return n, unitNone, notOpened(resp.StatusCode, "HTTP status %d instead of a WebSocket", resp.StatusCode)
	case !strings.EqualFold(resp.Header.Get("Upgrade"), "websocket"):
		return n, unitNone, fmt.Errorf("websocket: the server upgraded to %.40q", resp.Header.Get("Upgrade"))
	case resp.Header.Get("Sec-WebSocket-Accept") != w.want:
		return n, unitNone, errors.New("websocket: the server's Sec-WebSocket-Accept does not match the key")
	case resp.Header.Get("Sec-WebSocket-Extensions") != "":
		return n, unitNone, errors.New("websocket: the server chose an extension that was not offered")
	}
	w.opened = true
	return n, unitOpened, nil
}
