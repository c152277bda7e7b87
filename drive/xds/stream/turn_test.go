package stream_test

import (
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/drive/xds/stream"
	"github.com/meshtrial/meshtrial/testing/eventually"
	"github.com/meshtrial/meshtrial/testing/must"
)

// worker takes some time for each message, and may answer it.
type worker struct {
	taker
	stream *stream.Stream
	takes  time.Duration
	answer bool
}

func (w *worker) Message(b []byte, at int64) {
	time.Sleep(w.takes)
	if w.answer {
		w.stream.Send([]byte("answer"), nil)
	}
	w.taker.Message(b, at)
}

// A turn lasts from a message's receipt until all resulting output, if any, was
// written. Messages that are handled together are one turn, from the first.
func TestTurns(t *testing.T) {
	for name, test := range map[string]struct {
		texts  []string
		takes  time.Duration
		answer bool
		turns  int
		least  time.Duration
	}{
		"answered":     {[]string{"a"}, 30 * time.Millisecond, true, 1, 30 * time.Millisecond},
		"not answered": {[]string{"a"}, 30 * time.Millisecond, false, 1, 30 * time.Millisecond},
		"quick":        {[]string{"a"}, 0, true, 1, 0},
		"together":     {[]string{"a", "b", "c"}, 20 * time.Millisecond, true, 1, 60 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			turns := make(chan time.Duration, 10)
			o := options()
			o.OnTurn = func(took int64) { turns <- time.Duration(took) }
			c, p, _ := dial(t, o)
			w := &worker{takes: test.takes, answer: test.answer}
			must.OK(t, c.Do(func() { w.stream, _ = c.Open("/s/M", nil, w) }))
			p.headers(1, false, ":status", "200")
			var all []byte
			for _, text := range test.texts {
				all = append(all, message(text)...)
			}
			must.OK(t, p.WriteData(1, false, all))
			eventually.Holds(t, "a turn", func() bool { return len(turns) == test.turns })
			if took := <-turns; took < test.least || took > test.least+time.Minute {
				t.Errorf("took %v, at least %v", took, test.least)
			}
			if messages, _, _ := w.got(); len(messages) != len(test.texts) {
				t.Errorf("%d messages", len(messages))
			}
		})
	}
}
