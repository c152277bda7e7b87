package load

import (
	"errors"
	"fmt"
	"net/http"
	"syscall"

	"google.golang.org/grpc/codes"
)

// channel is the client's side of one stream of messages over one connection, without I/O. The
// server answers messages in order.
type channel interface {
	// open appends what opens the stream, and forgets an earlier one.
	open(out []byte) []byte
	// message appends a message, or keeps as much of it back as the peer does not accept yet.
	message(out []byte) []byte
	// next parses the beginning of what arrived. n is the number of bytes that it consumed; 0 means
	// that it needs more.
	next(b []byte) (n int, what unit, err error)
	// reply appends what the peer must be sent for what arrived.
	reply(out []byte) []byte
	// size returns the size of the last message, in bytes.
	size() int64
	// blocked reports whether part of a message is kept back.
	blocked() bool
	// partial reports whether part of a message has arrived, or is kept back.
	partial() bool
}

// unit is what a channel has received.
type unit uint8

const (
	unitNone    unit = iota // nothing that concerns messages
	unitOpened              // the stream is open
	unitMessage             // a complete message
	unitLeaving             // the stream is open, but takes no further messages; answers may follow
	// unitMoved is the end of a stream whose server answered everything that it read, and wants the
	// rest on another stream.
	unitMoved
)

// refusedError is why a server did not open a stream, or ended it: an HTTP status, a gRPC code or a
// WebSocket close code.
type refusedError struct {
	status int
	text   string
}

func (e *refusedError) Error() string { return e.text }

// notOpened returns an error that names a status.
func notOpened(status int, format string, args ...any) error {
	return &refusedError{status, fmt.Sprintf(format, args...)}
}

// Retryable reports whether [Start] failed for a reason that may pass by itself: nothing listens
// yet, or a proxy does not have its routes yet. Envoy answers gRPC without a route with Unimplemented.
func Retryable(err error) bool {
	refused := &refusedError{}
	if !errors.As(err, &refused) {
		return errors.Is(err, syscall.ECONNREFUSED)
	}
	switch refused.status {
	case http.StatusNotFound, http.StatusServiceUnavailable, int(codes.Unimplemented), int(codes.Unavailable):
		return true
	}
	return false
}
