package load

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/leakcheck"
	"github.com/meshtrial/meshtrial/testing/must"
)

// checkLog compares the log of requests with the account, and their intended
// times with those of the schedule.
func checkLog(t *testing.T, r *Result, times []int64) {
	t.Helper()
	h := r.Requests.Header()
	if w := r.Total(); h.Requests != w.Scheduled || h.Lost != 0 || h.StartUnixNS != r.Start.UnixNano() {
		t.Errorf("the log has %+v, the account %d requests", h, w.Scheduled)
	}
	interval := int64(seconds(r.Spec.IntervalS))
	got := make([]Account, len(r.Intervals))
	seen := int64(0)
	for req := range r.Requests.All() {
		if r.Spec.Threads == 1 && req.N != seen {
			t.Fatalf("request %d is numbered %d", seen, req.N)
		}
		seen++
		if err := req.check(); err != nil {
			t.Fatalf("%+v: %v", req, err)
		}
		if req.SentNS != record.Never && req.SentNS < req.IntendedNS || req.DoneNS != record.Never && req.DoneNS < req.SentNS {
			t.Fatalf("%+v: its times are in disorder", req)
		}
		if times != nil && !r.Interrupted && req.IntendedNS != times[req.N] {
			t.Fatalf("request %d intended at %d, the schedule says %d", req.N, req.IntendedNS, times[req.N])
		}
		k := Account{Scheduled: 1, Failed: map[string]int64{}}
		switch req.Outcome {
		case OutcomeOK:
			k.Completed = 1
		case OutcomeUnfinished:
			k.Unfinished = 1
		default:
			k.Failed[req.Outcome] = 1
		}
		got[req.IntendedNS/interval].add(k)
	}
	for i, iv := range r.Intervals {
		if g := got[i]; g.Scheduled != iv.Scheduled || g.Completed != iv.Completed || g.Unfinished != iv.Unfinished || g.Scheduled > 0 && !maps.Equal(g.Failed, iv.Failed) {
			t.Errorf("interval %d: the log has %+v, the account %+v", i, g, iv.Account)
		}
	}
}

// TestStatusInLog checks that failures carry the status of a complete response,
// and that requests that were never sent are marked so.
func TestStatusInLog(t *testing.T) {
	release := make(chan struct{})
	var stuck atomic.Int64
	addr := tcpServer(t, answering(func(n int64) string {
		switch {
		case n%4 == 0:
			return "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"
		case n > 50:
			stuck.Add(1)
			<-release
		}
		return okAnswer
	}))
	defer close(release)
	spec := quick("http://" + addr + "/")
	spec.DurationS, spec.DrainS, spec.TimeoutS = 60, 0.05, 60
	running := begin(t, spec)
	reach(t, running, func(Progress) bool { return stuck.Load() == int64(spec.Connections) })
	from := running.Progress().AtNS
	reach(t, running, func(p Progress) bool { return p.AtNS > from+100e6 }) // some 40 become due
	running.Stop()
	r := ended(t, running)
	status, unsent, out := 0, 0, 0
	for req := range r.Requests.All() {
		switch {
		case req.Outcome == FailStatus && req.Status == 503:
			status++
		case req.Outcome == OutcomeUnfinished && req.SentNS == record.Never:
			unsent++
		case req.Outcome == OutcomeUnfinished:
			out++
		case req.Outcome != OutcomeOK || req.Status != 200:
			t.Errorf("%+v", req)
		}
	}
	if status == 0 || unsent == 0 || out != spec.Connections {
		t.Errorf("%d with status 503, %d never sent, %d still out", status, unsent, out)
	}
}

// TestLogStream checks that a written log reads back, and that damage is
// reported with its place.
func TestLogStream(t *testing.T) {
	leakcheck.Goroutines(t)
	store := newLogStore(2, 3*logChunk)
	go store.fill()
	defer store.close()
	shards := []*shardLog{{store: store}, {store: store}}
	rec := recorder{interval: 1e9, fresh: newTally, seal: func(*tally) {}, done: &progress{}, stride: 2, log: shards[0]}
	var want []Request
	for i := range int64(logChunk + 5) {
		req := &request{}
		rec.admit(req, i)
		r := Request{N: 2 * i, IntendedNS: i, SentNS: i + 1, DoneNS: i + 2, Outcome: OutcomeOK, Status: 201}
		switch i % 3 {
		case 0:
			rec.sent(req, 0, i+1)
			rec.complete(req, i+2, 201)
		case 1:
			rec.sent(req, 0, i+1)
			rec.fail(req, failEOF, i+2, 0)
			r.Outcome, r.Status = FailEOF, 0
		case 2:
			rec.abandon(req)
			r.SentNS, r.DoneNS, r.Outcome, r.Status = record.Never, record.Never, OutcomeUnfinished, 0
		}
		want = append(want, r)
	}
	l := newRequestLog(&Spec{RequestID: "mm"}, time.Unix(5, 7), shards)
	var b bytes.Buffer
	must.OK(t, l.Write(&b))
	text := b.String()
	var got []Request
	h, err := ReadRequests("log", &b, func(_ *RequestsHeader, r Request) error { got = append(got, r); return nil })
	if err != nil || h != l.Header() || h.StartUnixNS != 5e9+7 || h.ID(got[1]) != "mm-2" {
		t.Fatalf("%+v, %v", h, err)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("request %d: %+v, want %+v", i, got[i], want[i])
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d requests, want %d", len(got), len(want))
	}

	lines := strings.SplitAfter(text, "\n")
	stop := errors.New("enough")
	for name, tt := range map[string]struct{ text, want string }{
		"empty":   {"", "log:1: the header: EOF"},
		"no log":  {"{}\n", "log:1: schema 0"},
		"cut":     {strings.Join(lines[:3], ""), "log:4: request 3 of 8197: EOF"},
		"in line": {text[:len(lines[0])+20], "log:2: request 1 of 8197"},
		"longer":  {text + lines[1], "log:8199: more than"},
		"outcome": {strings.Replace(text, `"ok"`, `"fine"`, 1), `log:2: request 0: outcome "fine"`},
		"times":   {strings.Replace(text, `"ok"`, `"unfinished"`, 1), "log:2: request 0: outcome unfinished does not go"},
		"endless": {lines[0] + strings.Repeat(" ", 2*maxRequestLine), "log:2: request 1 of 8197: the line is longer"},
	} {
		_, err := ReadRequests("log", strings.NewReader(tt.text), func(*RequestsHeader, Request) error { return nil })
		if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", name, err, tt.want)
		}
	}
	if _, err := ReadRequests("log", strings.NewReader(text), func(*RequestsHeader, Request) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("the reader's own error became %v", err)
	}
}

// TestLogBound checks that the log counts the requests beyond its bound, and
// that no request is delayed.
func TestLogBound(t *testing.T) {
	store := newLogStore(1, 2*logChunk)
	go store.fill()
	defer store.close()
	s := &shardLog{store: store}
	for i := range int64(2*logChunk + 10) {
		if e := s.add(i); (e == nil) != (i >= 2*logChunk) {
			t.Fatalf("request %d has an entry: %v", i, e != nil)
		}
	}
	l := newRequestLog(&Spec{}, time.Now(), []*shardLog{s})
	if h := l.Header(); h.Requests != 2*logChunk || h.Lost != 10 {
		t.Errorf("%+v", h)
	}
	if n := unsafe.Sizeof(logEntry{}); n > 40 {
		t.Errorf("a request takes %d bytes", n)
	}
}

func FuzzReadRequests(f *testing.F) {
	for _, seed := range []string{
		"", "{}\n",
		`{"schema":1,"start_unix_ns":1,"request_id":"mm","requests":1,"lost":0}` + "\n" + `{"n":0,"intended_ns":5,"sent_ns":6,"done_ns":7,"outcome":"ok","status":200}` + "\n",
		`{"schema":1,"requests":2}` + "\n" + `{"n":0,"intended_ns":5,"outcome":"unfinished"}` + "\n" + `{"n":1,"intended_ns":5,"sent_ns":6,"done_ns":7,"outcome":"reset"}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n := int64(0)
		h, err := ReadRequests("log", strings.NewReader(text), func(_ *RequestsHeader, r Request) error {
			n++
			var again Request
			line := r.append(nil)
			one := fmt.Sprintf(`{"schema":1,"requests":1}`+"\n%s", line)
			_, err := ReadRequests("again", strings.NewReader(one), func(_ *RequestsHeader, r Request) error { again = r; return nil })
			if err != nil || again != r {
				t.Fatalf("%s read as %+v, %v", line, again, err)
			}
			return nil
		})
		if err == nil && n != h.Requests {
			t.Fatalf("%d requests, the header says %d", n, h.Requests)
		}
		if err != nil && !strings.HasPrefix(err.Error(), "log:") {
			t.Fatalf("error without a place: %v", err)
		}
	})
}
