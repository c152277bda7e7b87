package trial

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/observe/ledger"
	"github.com/meshtrial/meshtrial/testing/must"
)

// listening returns a scribe that has read nothing, with room for some entries.
func listening(most int) *scribe {
	options := ledger.Options{Client: roleClients, Entry: "a", Services: map[string]ledger.Station{"a": {}}, Most: most}
	return &scribe{book: ledger.New(options), last: time.Now().Add(-time.Hour)}
}

// wrote makes a worker of service a write its lines about the first requests.
func wrote(t *testing.T, s *scribe, requests int) {
	t.Helper()
	var log strings.Builder
	for n := range requests {
		fmt.Fprintf(&log, `{"id":"mm-%d","start_ns":%d,"end_ns":%d,"status":200}`+"\nsomething else\n", n, n, n+1)
	}
	err := readWorker(strings.NewReader(log.String()), ledger.Source{Service: "a", Pod: "a-1", Prefix: "mm-"}, func(e ledger.WorkerEntry) {
		s.add(func() { s.book.AddWorker(e) })
	})
	must.OK(t, err)
	s.last = time.Now().Add(-time.Hour)
}

func asked(requests int) []ledger.ClientEntry {
	var out []ledger.ClientEntry
	for n := range requests {
		out = append(out, ledger.ClientEntry{ID: fmt.Sprint("mm-", n), DoneNS: 2, Outcome: ledger.OutcomeOK, Status: 200})
	}
	return out
}

// A trial's logs take limited memory, and a trial whose logs were truncated says so.
func TestLogsAreBounded(t *testing.T) {
	for _, c := range []struct {
		most int
		over int64
	}{{8, 0}, {7, 1}, {4, 4}, {1, 7}} {
		s := listening(c.most)
		wrote(t, s, 4)
		if len(s.lives) != 0 {
			t.Fatal("it follows something")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		book, err := s.settle(ctx, asked(4))
		cancel()
		must.OK(t, err)
		if clients, _, workers := book.Entries(); book.Over() != c.over || int64(clients+workers) != 8-c.over {
			t.Errorf("room for %d: %d and %d entries, %d over", c.most, clients, workers, book.Over())
		}
	}
}

// Lines that arrive after the book is finished are dropped, since others read the book.
func TestSettledBookIsClosed(t *testing.T) {
	s := listening(0)
	wrote(t, s, 2)
	book, err := s.settle(t.Context(), asked(2))
	if err != nil || !book.Account().Reconciled {
		t.Fatalf("%v, %+v", err, book.Account())
	}
	wrote(t, s, 3)
	if clients, _, workers := book.Entries(); clients != 2 || workers != 2 {
		t.Errorf("%d and %d entries", clients, workers)
	}
}

// Late lines are awaited, within the trial's time limit.
func TestSettleWaitsForLines(t *testing.T) {
	s := listening(0)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.settle(ctx, asked(1)); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled trial: %v", err)
	}
	s = listening(0)
	done := make(chan *ledger.Book, 1)
	go func() {
		book, _ := s.settle(t.Context(), asked(1))
		done <- book
	}()
	for came := false; !came; {
		s.mu.Lock()
		clients, _, _ := s.book.Entries()
		came = clients == 1
		s.mu.Unlock()
		runtime.Gosched()
	}
	s.add(func() {
		s.book.AddWorker(ledger.WorkerEntry{ID: "mm-0", Service: "a", Status: 200, Ended: ledger.EndAnswered})
	})
	if book := <-done; !book.Account().Reconciled {
		t.Errorf("%+v", book.Account())
	}
}
