package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/meshtrial/meshtrial/drive/worker/control"
)

const (
	// maxPage limits the entries of a page.
	maxPage = 50_000
	// maxID limits the bytes of an id that are kept.
	maxID = 128
	// flushEvery is how often the log is written, and maxUnflushed the maximum
	// number of bytes buffered.
	flushEvery   = 100 * time.Millisecond
	maxUnflushed = 1 << 18
)

// requestLog keeps a fixed number of the latest requests.
type requestLog struct {
	mu      sync.Mutex
	entries []control.Request // a ring: entry n is at n modulo its length
	next    int64             // number of the next entry

	// out receives every entry as a line of JSON, so that the log survives the
	// worker; nil: nothing is written.
	out     io.Writer
	pending bytes.Buffer
	outErr  error // the first failed write, which ended writing
}

// flush writes pending entries.
func (l *requestLog) flush() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.write()
	return l.outErr
}

// write is flush for callers that hold the lock.
func (l *requestLog) write() {
	if l.out == nil || l.pending.Len() == 0 || l.outErr != nil {
		return
	}
	if _, err := l.out.Write(l.pending.Bytes()); err != nil {
		l.outErr = fmt.Errorf("worker: write the log of requests: %w", err)
	}
	l.pending.Reset()
}

// follow flushes periodically until ctx ends, and then once more.
func (l *requestLog) follow(ctx context.Context) error {
	ticker := time.NewTicker(flushEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return l.flush()
		case <-ticker.C:
			if err := l.flush(); err != nil {
				return err
			}
		}
	}
}

// resize makes room for n entries and keeps the latest ones.
func (l *requestLog) resize(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n == len(l.entries) {
		return
	}
	old := l.entries
	l.entries = make([]control.Request, n)
	for i := max(0, l.next-int64(min(n, len(old)))); i < l.next; i++ {
		l.entries[i%int64(n)] = old[i%int64(len(old))]
	}
}

// add logs an exchange that has ended.
func (l *requestLog) add(x *Exchange, status int) {
	id := x.Header("x-request-id")
	if id == "" {
		return
	}
	attempt, _ := strconv.Atoi(x.Header("x-envoy-attempt-count")) // 0 without the header
	e := control.Request{ID: strings.Clone(id[:min(len(id), maxID)]), Protocol: x.Protocol, StartNS: x.Start.UnixNano(), EndNS: time.Now().UnixNano(),
		Status: status, Failure: x.Failure, Attempt: attempt}
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := int64(len(l.entries)); n > 0 {
		l.entries[l.next%n] = e
		l.next++
	}
	if l.out != nil && l.outErr == nil {
		_ = json.NewEncoder(&l.pending).Encode(e) // cannot fail: a buffer takes everything, and e is plain
		if l.pending.Len() > maxUnflushed {
			l.write()
		}
	}
}

// page returns entries from number from on.
func (l *requestLog) page(from int64) control.Requests {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := min(max(from, l.next-int64(len(l.entries)), 0), l.next)
	end := min(l.next, first+maxPage)
	out := control.Requests{Schema: control.Schema, From: first, Lost: max(0, first-from), More: end < l.next, Requests: make([]control.Request, 0, end-first)}
	for i := first; i < end; i++ {
		out.Requests = append(out.Requests, l.entries[i%int64(len(l.entries))])
	}
	return out
}
