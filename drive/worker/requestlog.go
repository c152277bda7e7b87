package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/meshtrial/meshtrial/drive/worker/control"
)

const (
	// maxID limits the bytes of an id that are kept.
	maxID = 128
	// flushEvery is how often the log is written, and maxUnflushed the maximum
	// number of bytes buffered.
	flushEvery   = 100 * time.Millisecond
	maxUnflushed = 1 << 18
)

// requestLog writes requests as lines of JSON.
type requestLog struct {
	out     io.Writer
	mu      sync.Mutex
	pending bytes.Buffer
	outErr  error // the first failed write, which ended writing
}

// flush writes pending entries, if there is a log.
func (l *requestLog) flush() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.write()
	return l.outErr
}

// write is flush for callers that hold the lock.
func (l *requestLog) write() {
	if l.pending.Len() == 0 || l.outErr != nil {
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

// add logs an exchange that has ended.
func (l *requestLog) add(x *Exchange, status int) {
	id := x.Header("x-request-id")
	if id == "" {
		return
	}
	attempt, _ := strconv.Atoi(x.Header("x-envoy-attempt-count")) // 0 without the header
	e := control.Request{ID: id[:min(len(id), maxID)], Protocol: x.Protocol, StartNS: x.Start.UnixNano(), EndNS: time.Now().UnixNano(),
		Status: status, Failure: x.Failure, Attempt: attempt}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.outErr == nil {
		_ = json.NewEncoder(&l.pending).Encode(e) // cannot fail: a buffer takes everything, and e is plain
		if l.pending.Len() > maxUnflushed {
			l.write()
		}
	}
}
