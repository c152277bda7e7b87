package worker

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/drive/worker/control"
	"github.com/meshtrial/meshtrial/study/protocol"
	"github.com/meshtrial/meshtrial/testing/must"
)

// locked is a buffer that is safe for several goroutines.
type locked struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// Every request with an id has its line once the worker has ended.
func TestWrittenRequestLog(t *testing.T) {
	out := &locked{}
	w := start(t, func(o *Options) { o.Config.ResponseBytes, o.RequestLog, o.DrainTimeout = 1, out, time.Minute })
	c := client(t, protocol.HTTP1)
	for _, id := range []string{"mm-1", "", "mm-2"} {
		header := http.Header{}
		if id != "" {
			header.Set("X-Request-Id", id)
		}
		httpCall(t, c, "http://"+w.addr[protocol.HTTP1], "", header)
	}
	must.OK(t, w.stop())
	var got []string
	for line := range strings.Lines(out.b.String()) {
		var r control.Request
		if err := json.Unmarshal([]byte(line), &r); err != nil || r.Status != 200 || r.EndNS < r.StartNS {
			t.Errorf("%s: %+v, %v", line, r, err)
		}
		got = append(got, r.ID)
	}
	if strings.Join(got, " ") != "mm-1 mm-2" {
		t.Errorf("got %q", got)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("no space") }

// A log that cannot be written is reported at the end, and nothing waits for
// it.
func TestRequestLogThatCannotBeWritten(t *testing.T) {
	w := start(t, func(o *Options) { o.Config.ResponseBytes, o.RequestLog, o.DrainTimeout = 1, broken{}, time.Minute })
	header := http.Header{"X-Request-Id": {"mm-1"}}
	if status, _ := httpCall(t, client(t, protocol.HTTP1), "http://"+w.addr[protocol.HTTP1], "", header); status != 200 {
		t.Errorf("status %d", status)
	}
	if err := w.stop(); err == nil || !strings.Contains(err.Error(), "no space") {
		t.Errorf("%v", err)
	}
}
