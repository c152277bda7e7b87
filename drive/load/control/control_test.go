package control

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/drive/load"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/jsonhttp"
	"github.com/meshtrial/meshtrial/internal/jsonhttp/jsonhttptest"
	"github.com/meshtrial/meshtrial/testing/must"
)

// lab is a control server, a client of it, and a target.
func lab(t *testing.T) (*Client, *httptest.Server, string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	server := httptest.NewServer(NewServer(ctx, "v1.2.3").Handler())
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {}))
	t.Cleanup(func() {
		cancel()
		server.Close()
		target.Close()
	})
	return NewClient(server.URL, server.Client()), server, target.URL
}

func TestRunByControl(t *testing.T) {
	c, _, url := lab(t)
	ctx := context.Background()
	if v, err := c.Version(ctx); err != nil || v != "v1.2.3" {
		t.Errorf("version %q, %v", v, err)
	}
	spec := load.DefaultSpec(url)
	spec.Rate, spec.DurationS, spec.IntervalS, spec.Connections, spec.DrainS = 200, 60, 0.1, 2, 30
	started, err := c.Start(ctx, spec)
	must.OK(t, err)
	if _, err := c.Start(ctx, spec); err == nil || !strings.Contains(err.Error(), "another run") || errs.Hint(err) == "" {
		t.Errorf("a second run: %v", err)
	}
	if _, err := c.Intervals(ctx, "other", 0); err == nil || !strings.Contains(err.Error(), "no run") {
		t.Errorf("a run that is not there: %v", err)
	}
	if s, err := c.StopAfter(ctx, started.Run, 3); err != nil || s.Run != started.Run || s.StartUnixNS != started.StartUnixNS {
		t.Errorf("stop after: %+v, %v", s, err)
	}
	p, err := c.Progress(ctx, started.Run)
	must.OK(t, err)
	inTime := p.AtNS < 400e6 // otherwise the order came too late, and the run ended immediately
	result, err := c.Result(ctx, started.Run)
	must.OK(t, err)
	w := result.Total()
	stream, err := c.Stream(ctx, started.Run)
	must.OK(t, err)
	if again, err := load.MergeStreams(ctx, []*load.Stream{stream}, nil); err != nil || !again.Total().Intended.Equals(w.Intended) || again.Total().Scheduled != w.Scheduled {
		t.Errorf("as a stream: %+v, %v", again, err)
	}
	n := len(result.Intervals)
	if n < 4 || inTime && n > 4 || !w.Balanced() || w.Completed == 0 || w.Completed != w.Scheduled || result.Start.UnixNano() != started.StartUnixNS {
		t.Errorf("%d intervals, %+v", len(result.Intervals), w.Account)
	}
	s, err := c.Intervals(ctx, started.Run, 1)
	if err != nil || !s.Done || len(s.Intervals) != n-1 || s.Intervals[0].Index != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	if s.Intervals[0].Intended != nil {
		t.Error("histograms that nobody asked for")
	}
	s, err = c.IntervalsWithLatency(ctx, started.Run, 0)
	must.OK(t, err)
	all := load.NewHistogram()
	for _, one := range s.Intervals {
		answers := int64(0)
		err := one.Intended.Each(func(ns float64, count int64) {
			answers += count
			_ = all.RecordValues(int64(ns), count) // in range
		})
		if err != nil || answers != one.Completed {
			t.Errorf("interval %d: a histogram of %d of %d answers: %v", one.Index, answers, one.Completed, err)
		}
	}
	if !all.Equals(w.Intended) {
		t.Error("histograms of intervals do not add up to the run's")
	}
	again, err := c.Start(ctx, spec) // the place is free again
	must.OK(t, err)
	must.OK(t, must.Err(c.Stop(ctx, again.Run)))
	must.OK(t, must.Err(c.Result(ctx, again.Run)))
	if clock, err := c.Clock(ctx); err != nil || clock.Ahead.Abs() > clock.Bound {
		t.Errorf("the same clock: %+v, %v", clock, err)
	}
}

// A client of a role can end a run that another client left, and then start one.
func TestEnd(t *testing.T) {
	c, server, url := lab(t)
	if err := c.End(t.Context()); err != nil {
		t.Errorf("nothing was ever begun: %v", err)
	}
	spec := load.DefaultSpec(url)
	spec.DurationS = 60
	left, err := c.Start(t.Context(), spec)
	must.OK(t, err)
	other := NewClient(server.URL, nil)
	must.OK(t, other.End(t.Context()))
	if s, err := c.Intervals(t.Context(), left.Run, 0); err != nil || !s.Done {
		t.Errorf("it still runs: %+v, %v", s, err)
	}
	if err := other.End(t.Context()); err != nil {
		t.Errorf("it has ended: %v", err)
	}
	must.OK(t, must.Err(other.Start(t.Context(), spec)))
}

// A run whose start nobody waits for any more still ends, once it has begun.
func TestEndOfARunThatIsBeingStarted(t *testing.T) {
	s := NewServer(t.Context(), "v")
	server := httptest.NewServer(s.Handler())
	defer server.Close()
	must.OK(t, s.reserve())
	c := NewClient(server.URL, nil)
	limited, cancel := context.WithTimeout(t.Context(), 3*endEvery)
	defer cancel()
	if err := c.End(limited); err == nil {
		t.Error("a run that is being started has ended")
	}
	s.mu.Lock()
	s.busy = false
	s.mu.Unlock()
	must.OK(t, c.End(t.Context()))
}

// A start that failed because nothing listens yet may be repeated, unlike one of a bad run.
func TestRetryableStarts(t *testing.T) {
	c, _, url := lab(t)
	for to, passes := range map[string]bool{"http://127.0.0.1:1": true, "http://nowhere.invalid": false, url + "/%zz": false} {
		spec := load.DefaultSpec(to)
		if _, err := c.Start(t.Context(), spec); err == nil || Retryable(err) != passes {
			t.Errorf("%s: %v", to, err)
		}
	}
}

func TestBadRequests(t *testing.T) {
	c, server, url := lab(t)
	spec := load.DefaultSpec(url)
	spec.Connections = 0
	if _, err := c.Start(context.Background(), spec); errs.Code(err) != errs.CodeUsage {
		t.Errorf("a bad spec: %v", err)
	}
	spec = load.DefaultSpec("http://127.0.0.1:1/")
	if _, err := c.Start(context.Background(), spec); err == nil || errs.Hint(err) == "" {
		t.Errorf("nothing listens: %v", err)
	}
	for _, tt := range []struct {
		method, path, body string
		status             int
	}{
		{"POST", "/v1/start", `{"url": "http://h/", "nonsense": 1}`, 400},
		{"POST", "/v1/start", `{`, 400},
		{"GET", "/v1/start", ``, 405},
		{"GET", "/v1/intervals", ``, 404},
		{"POST", "/v1/stop?run=x", ``, 404},
		{"POST", "/v1/runs/x/rate", `{"rate_rps": 1}`, 404},
		{"GET", "/v1/runs/x/requests", ``, 404},
		{"GET", "/v1/runs/x/result", ``, 404},
		{"GET", "/v1/runs/x/progress", ``, 404},
		{"GET", "/nothing", ``, 404},
	} {
		req, _ := http.NewRequest(tt.method, server.URL+tt.path, strings.NewReader(tt.body))
		resp, err := server.Client().Do(req)
		must.OK(t, err)
		if resp.StatusCode != tt.status {
			t.Errorf("%s %s: status %d, want %d", tt.method, tt.path, resp.StatusCode, tt.status)
		}
		var answer jsonhttp.Problem
		if tt.status != 405 && tt.path != "/nothing" {
			if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || answer.Error == "" {
				t.Errorf("%s %s: no reason given: %v", tt.method, tt.path, err)
			}
		}
		resp.Body.Close()
	}
}

// A page in a user's browser must not start load from this machine.
func TestPagesOfOthersAreRefused(t *testing.T) {
	_, server, _ := lab(t)
	jsonhttptest.RefusesStrangers(t, server.URL, "/v1/start")
}

func TestServerEndsRuns(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	s := NewServer(ctx, "v")
	server := httptest.NewServer(s.Handler())
	defer server.Close()
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {}))
	defer target.Close()
	c := NewClient(server.URL, nil)
	spec := load.DefaultSpec(target.URL)
	spec.DurationS = 60
	started, err := c.Start(context.Background(), spec)
	must.OK(t, err)
	cancel()
	result, err := c.Result(context.Background(), started.Run)
	if err != nil || !result.Interrupted || !result.Total().Balanced() {
		t.Errorf("%+v, %v", result, err)
	}
}
