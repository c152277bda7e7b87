package worker

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// A stream closes gracefully once every message it received has been answered. The client learns
// of it from the protocol, and resends unanswered messages on a new stream.

// messageStreams are the streams of a server that are open.
type messageStreams struct {
	w       *Worker
	counted *protocolCounters
	// leave ends when streams must end in an orderly way, now when they must end at once.
	leave, now       context.Context
	endLeave, endNow context.CancelFunc
	open             sync.WaitGroup
}

func newMessageStreams(w *Worker, counted *protocolCounters) *messageStreams {
	s := &messageStreams{w: w, counted: counted}
	s.leave, s.endLeave = context.WithCancel(context.Background())
	s.now, s.endNow = context.WithCancel(context.Background())
	return s
}

// drain has all streams end in an orderly way, and waits for that or the end of ctx.
func (s *messageStreams) drain(ctx context.Context) error {
	s.endLeave()
	return drainOr(ctx, s.open.Wait, s.endNow)
}

// end ends all streams at once.
func (s *messageStreams) end() {
	s.endNow()
	s.open.Wait()
}

// messageStream is one stream. The server answers its messages in order.
type messageStream struct {
	of     *messageStreams
	header func(string) string // of the request that opened it
	mu     sync.Mutex          // held while a message is answered
	ending bool
}

// answer serves a message by a configuration and writes the reply. An error ends the stream; status
// is that of a message without a reply. While the stream ends, messages are ignored.
func (s *messageStream) answer(ctx context.Context, current *active, body []byte, size int64, write func(reply []byte) error) (status int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending {
		return http.StatusOK, nil
	}
	x := Exchange{Protocol: s.of.counted.name, counted: s.of.counted, Header: s.header, Body: body, BodyBytes: size, Start: time.Now()}
	if err := current.serve(ctx, &x); err != nil {
		return 0, err
	}
	if x.slow > 0 { // a message arrives complete or not at all
		if err := s.of.w.trickle(ctx, x.Reply, x.slow, func([]byte) error { return nil }); err != nil {
			return 0, err
		}
	}
	if x.Status != http.StatusOK {
		return x.Status, nil
	}
	return x.Status, write(x.Reply)
}

// finish waits until the message being answered is, and ignores later ones.
func (s *messageStream) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ending = true
}
