package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/meshtrial/meshtrial/drive/load"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/openmetrics/openmetricstest"
	"github.com/meshtrial/meshtrial/testing/must"
)

func TestLoadCommand(t *testing.T) {
	var bad atomic.Bool
	var ids atomic.Int64
	var interrupt atomic.Pointer[context.CancelFunc] // after a request has arrived
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.Header.Get("X-Request-Id"), "mm-7-") && strings.HasPrefix(r.Header.Get("X-User"), "key-") {
			ids.Add(1)
		}
		if end := interrupt.Swap(nil); end != nil {
			time.AfterFunc(300*time.Millisecond, *end)
		}
		if bad.Load() {
			w.WriteHeader(500)
		}
	}))
	defer server.Close()
	ctx := context.Background()

	log := filepath.Join(t.TempDir(), "l.hlog")
	requests := filepath.Join(t.TempDir(), "requests.ndjson")
	out, stderr, err := runIn(ctx, "load", server.URL, "-r", "200", "-d", "500ms", "--seed", "3", "--log", log,
		"--request-log", requests, "--request-id", "mm-7", "--header-key", "x-user:3", "--max-connections", "99", "--json")
	var report load.Report
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	// A busy machine may invalidate the run, but the account must always be correct.
	if (err == nil) != report.Valid || err != nil && errs.Code(err) != errs.CodeInvalid || stderr != "" {
		t.Errorf("%v, valid %v, stderr %q", err, report.Valid, stderr)
	}
	if report.Schema != 3 || report.Rate != 200 || report.Arrival != "poisson" || report.DurationS != 0.5 || report.Scheduled == 0 || report.Scheduled != report.Completed ||
		report.Schedule == nil || report.Schedule.Process != load.Poisson || report.Schedule.Gaps != report.Scheduled-1 || report.EffectiveRequests == 0 {
		t.Errorf("%+v", report)
	}
	file, err := os.Open(log)
	must.OK(t, err)
	defer file.Close()
	logged := map[string]int64{}
	for reader := hdrhistogram.NewHistogramLogReader(file); ; {
		h, err := reader.NextIntervalHistogram()
		must.OK(t, err)
		if h == nil {
			break
		}
		logged[h.Tag()] += h.TotalCount()
	}
	if want := map[string]int64{load.TagIntended: report.Completed, load.TagSend: report.Completed}; !maps.Equal(logged, want) {
		t.Errorf("the log has %v requests, not %v", logged, want)
	}

	lines, err := os.Open(requests)
	must.OK(t, err)
	defer lines.Close()
	answered := int64(0)
	header, err := load.ReadRequests(requests, lines, func(_ *load.RequestsHeader, r load.Request) error {
		if r.Outcome == load.OutcomeOK {
			answered++
		}
		return nil
	})
	if err != nil || header.Requests != report.Scheduled || answered != report.Completed || header.Prefix != "mm-7" || header.StartUnixNS != report.StartUnixNS {
		t.Errorf("%+v, %d answered, %v; the report says %+v", header, answered, err, report)
	}
	if ids.Load() != report.Scheduled {
		t.Errorf("%d of %d requests carried an id and a key", ids.Load(), report.Scheduled)
	}

	out, _, _ = runIn(ctx, "load", server.URL, "-r", "max", "-d", "1s")
	contains(t, out, "as fast as possible", "latency    intended        send", "p50", "scheduled", "own CPU")

	bad.Store(true)
	out, _, err = runIn(ctx, "load", server.URL, "-d", "1s")
	if errs.Code(err) != errs.CodeInvalid || !strings.Contains(out, "valid     no") || !strings.Contains(out, " status\n    HTTP status 500\n") || !strings.Contains(out, "from exponential ones (p ") {
		t.Errorf("%v:\n%s", err, out)
	}
	if out, _, _ = runIn(ctx, "load", server.URL, "-d", "100ms", "--expect-status", "2xx,500"); !strings.Contains(out, " + failed 0 + ") {
		t.Errorf("an expected status is a failure:\n%s", out)
	}
	bad.Store(false)

	metricsOfLoad(t)

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	interrupt.Store(&cancel)
	out, _, err = runIn(ctx, "load", server.URL, "-d", "1h")
	if errs.Code(err) != errs.CodeInterrupted || !strings.Contains(out, "was interrupted after") {
		t.Errorf("%v:\n%s", err, out)
	}
}

// metricsOfLoad makes the target of a load read the load's metrics while the load waits for the
// answer.
func metricsOfLoad(t *testing.T) {
	t.Helper()
	var said lockedBuffer
	page := make(chan []byte, 1)
	var once sync.Once
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		once.Do(func() {
			defer close(page)
			_, url, _ := strings.Cut(said.String(), "metrics at ")
			resp, err := http.Get(strings.TrimSpace(url))
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			text, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Error(err)
			}
			page <- text
		})
	}))
	defer target.Close()
	var out bytes.Buffer
	if err := Run(t.Context(), []string{"load", target.URL, "-r", "200", "-d", "300ms", "--metrics", "0"}, &Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &said}); err != nil && errs.Code(err) != errs.CodeInvalid {
		t.Error(err)
	}
	got := openmetricstest.Read(t, <-page)
	if got["meshtrial_load_sent_total"] < 1 || got["meshtrial_load_in_flight"] < 1 {
		t.Errorf("while a request is answered: %v", got)
	}
}
