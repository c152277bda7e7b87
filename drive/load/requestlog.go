package load

import (
	"bufio"
	"fmt"
	"io"
	"iter"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/meshtrial/meshtrial/record"
)

// logEntry is a request in memory: 32 bytes.
type logEntry struct {
	intended, sent, done int64
	status               uint16
	outcome              uint8 // index into outcomes
}

// outcomes of entries: unfinished, ok, then the kinds of failure.
var outcomes = append([]string{OutcomeUnfinished, OutcomeOK}, kinds[:]...)

const (
	entryOK  = 1
	entryBad = 2 // plus the failure
)

// logChunk is how many entries are allocated at once: 256 KiB.
const logChunk = 8192

// logPages is the stride, in entries, at which each page of a chunk is touched before an
// event loop gets it.
const logPages = 4096 / 32

// logStore hands out chunks to the shards of a run, up to a common bound. A goroutine
// allocates them in advance, so that no request waits for the kernel.
type logStore struct {
	left  atomic.Int64 // chunks that may still be handed out
	ready chan *[logChunk]logEntry
	stop  chan struct{}
	ended chan struct{}
}

func newLogStore(shards int, bound int64) *logStore {
	s := &logStore{ready: make(chan *[logChunk]logEntry, 1+shards), stop: make(chan struct{}), ended: make(chan struct{})}
	s.left.Store((bound + logChunk - 1) / logChunk)
	return s
}

// fill allocates chunks until the bound or close.
func (s *logStore) fill() {
	defer close(s.ended)
	for s.left.Add(-1) >= 0 {
		chunk := new([logChunk]logEntry)
		for i := 0; i < logChunk; i += logPages {
			chunk[i].sent = record.Never
		}
		select {
		case s.ready <- chunk:
		case <-s.stop:
			return
		}
	}
	close(s.ready) // no more
}

// close ends fill.
func (s *logStore) close() {
	close(s.stop)
	<-s.ended
}

// shardLog is the part of a run's log that one recorder writes, in order of admission.
type shardLog struct {
	store  *logStore
	chunks []*[logChunk]logEntry
	n      int64
	lost   int64
}

// add returns the entry of the next request; nil beyond the bound.
func (l *shardLog) add(intended int64) *logEntry {
	i := l.n % logChunk
	if i == 0 {
		chunk := <-l.store.ready // nil once there are no more
		if chunk == nil {
			l.lost++
			return nil
		}
		l.chunks = append(l.chunks, chunk)
	}
	l.n++
	e := &l.chunks[len(l.chunks)-1][i]
	e.intended, e.sent, e.done = intended, record.Never, record.Never
	return e
}

// RequestLog holds the outcome of each request of a run, in 32 bytes each.
type RequestLog struct {
	header RequestsHeader
	shards []*shardLog
}

func newRequestLog(spec *Spec, start time.Time, shards []*shardLog) *RequestLog {
	l := &RequestLog{header: RequestsHeader{Schema: requestsSchema, StartUnixNS: start.UnixNano(), Prefix: spec.RequestID}, shards: shards}
	for _, s := range shards {
		l.header.Requests += s.n
		l.header.Lost += s.lost
	}
	return l
}

// Header returns the log's header.
func (l *RequestLog) Header() RequestsHeader { return l.header }

// All returns the requests by their numbers.
func (l *RequestLog) All() iter.Seq[Request] {
	return func(yield func(Request) bool) {
		shards := int64(len(l.shards))
		for n, left := int64(0), l.header.Requests; left > 0; n++ {
			s, i := l.shards[n%shards], n/shards
			if i >= s.n {
				continue // this event loop sent fewer
			}
			left--
			e := &s.chunks[i/logChunk][i%logChunk]
			if !yield(Request{
				N: n, IntendedNS: e.intended, SentNS: e.sent, DoneNS: e.done,
				Outcome: outcomes[e.outcome], Status: int(e.status),
			}) {
				return
			}
		}
	}
}

// Write writes the log as lines of JSON: its header, then one [Request] per line.
// Times that are [record.Never] are omitted.
func (l *RequestLog) Write(w io.Writer) error {
	out := bufio.NewWriterSize(w, 64<<10)
	h := &l.header
	_, err := fmt.Fprintf(out, `{"schema":%d,"start_unix_ns":%d,"request_id":%s,"requests":%d,"lost":%d}`+"\n",
		h.Schema, h.StartUnixNS, strconv.Quote(h.Prefix), h.Requests, h.Lost)
	line := make([]byte, 0, 256)
	for r := range l.All() {
		if err != nil {
			break
		}
		line = r.append(line[:0])
		_, err = out.Write(line)
	}
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		return fmt.Errorf("request log: %w", err)
	}
	return nil
}

// append appends the request as a line of JSON.
func (r *Request) append(b []byte) []byte {
	field := func(name string, v int64) {
		b = append(b, name...)
		b = strconv.AppendInt(b, v, 10)
	}
	field(`{"n":`, r.N)
	field(`,"intended_ns":`, r.IntendedNS)
	if r.SentNS != record.Never {
		field(`,"sent_ns":`, r.SentNS)
	}
	if r.DoneNS != record.Never {
		field(`,"done_ns":`, r.DoneNS)
	}
	b = append(b, `,"outcome":"`...)
	b = append(b, r.Outcome...)
	b = append(b, '"')
	if r.Status != 0 {
		field(`,"status":`, int64(r.Status))
	}
	return append(b, '}', '\n')
}
