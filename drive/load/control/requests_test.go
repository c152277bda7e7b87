package control

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/drive/load"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/jsonhttp"
	"github.com/meshtrial/meshtrial/testing/must"
)

// TestTimelineByControl runs a load that starts at a given instant, whose rate
// changes during the run, and whose log has every request.
func TestTimelineByControl(t *testing.T) {
	c, server, url := lab(t)
	ctx := context.Background()
	spec := load.DefaultSpec(url)
	spec.Rate, spec.Arrival, spec.DurationS, spec.IntervalS = 100, load.Uniform, 0.9, 0.1
	spec.RequestLog, spec.RequestID, spec.DrainS = true, "mm-1", 30
	// Everything required before the run begins is done in time; if the machine
	// was too slow, retry with more time.
	var at time.Time
	var started Started
	for ahead := time.Second; ; ahead *= 2 {
		at = time.Now().Add(ahead)
		spec.StartAtUnixNS = at.UnixNano()
		var startErr, logErr, rateErr, pastErr, progressErr error
		var made load.RateChange
		var p load.Progress
		if started, startErr = c.Start(ctx, spec); startErr == nil {
			p, progressErr = c.Progress(ctx, started.Run)
			_, _, logErr = allRequests(ctx, c, started.Run)
			made, rateErr = c.SetRate(ctx, started.Run, 1000, at.Add(500*time.Millisecond))
			_, pastErr = c.SetRate(ctx, started.Run, 1, at.Add(-time.Second))
		}
		if !time.Now().Before(at) && ahead < time.Minute {
			if startErr == nil {
				must.OK(t, must.Err(c.Result(ctx, started.Run)))
			}
			continue
		}
		if startErr != nil || started.StartUnixNS != at.UnixNano() {
			t.Fatalf("%+v, %v", started, startErr)
		}
		if progressErr != nil || p.AtNS >= 0 || p.Sent != 0 {
			t.Errorf("before the start: %+v, %v", p, progressErr)
		}
		var answer *jsonhttp.StatusError
		if !errors.As(logErr, &answer) || answer.Status != http.StatusTooEarly {
			t.Errorf("the log of a run under way: %v", logErr)
		}
		if rateErr != nil || made != (load.RateChange{AtNS: 500e6, RPS: 1000}) {
			t.Errorf("%+v, %v", made, rateErr)
		}
		if !errors.Is(pastErr, load.ErrLate) || errs.Hint(pastErr) == "" {
			t.Errorf("a change in the past: %v", pastErr)
		}
		break
	}
	if _, err := c.SetRate(ctx, started.Run, -1, time.Time{}); errs.Code(err) != errs.CodeUsage {
		t.Errorf("a negative rate: %v", err)
	}
	result, err := c.Result(ctx, started.Run)
	if err != nil || len(result.Changes) != 1 {
		t.Fatalf("%+v, %v", result, err)
	}
	h, all, err := allRequests(ctx, c, started.Run)
	must.OK(t, err)
	if w := result.Total(); h.StartUnixNS != at.UnixNano() || int64(len(all)) != w.Scheduled || w.Scheduled != 450 || w.Completed != w.Scheduled {
		t.Errorf("%+v, %d requests in the log, %+v", h, len(all), w.Account)
	}
	for i, r := range all {
		want := int64(i) * 10_000_000
		if i >= 50 {
			want = 500_000_000 + int64(i-50)*1_000_000
		}
		if r.IntendedNS < want-1 || r.IntendedNS > want+1 || r.N != int64(i) || r.Outcome != load.OutcomeOK || r.Status != 200 {
			t.Fatalf("request %d: %+v, want it at %d", i, r, want)
		}
	}
	if h.ID(all[7]) != "mm-1-7" {
		t.Errorf("id %s", h.ID(all[7]))
	}
	if p, err := c.Progress(ctx, started.Run); err != nil || p.Sent != 450 || p.Completed != 450 || p.Failed != 0 {
		t.Errorf("at the end: %+v, %v", p, err)
	}
	if _, err := c.SetRate(ctx, started.Run, 1, time.Time{}); !errors.Is(err, load.ErrLate) {
		t.Errorf("a change after the end: %v", err)
	}

	// A client that does not accept gzip gets plain lines.
	req, err := http.NewRequest("GET", server.URL+"/v1/runs/"+started.Run+"/requests", nil)
	must.OK(t, err)
	req.Header.Set("Accept-Encoding", "identity")
	resp, err := server.Client().Do(req)
	must.OK(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.Header.Get("Content-Encoding") != "" || strings.Count(string(text), "\n") != 451 {
		t.Errorf("%v, %.200s", err, text)
	}

	spec = load.DefaultSpec(url)
	spec.DurationS = 0.1
	started, err = c.Start(ctx, spec)
	must.OK(t, err)
	must.OK(t, must.Err(c.Result(ctx, started.Run)))
	if _, _, err := allRequests(ctx, c, started.Run); err == nil || !strings.Contains(err.Error(), "kept no log") {
		t.Errorf("a run without a log: %v", err)
	}
	spec.StartAtUnixNS = 1
	if _, err := c.Start(ctx, spec); errs.Code(err) != errs.CodeUsage || errs.Hint(err) == "" {
		t.Errorf("a start in the past: %v", err)
	}
}

// allRequests returns the log of an ended run.
func allRequests(ctx context.Context, c *Client, run string) (h load.RequestsHeader, all []load.Request, err error) {
	h, err = c.EachRequest(ctx, run, func(_ *load.RequestsHeader, r load.Request) error {
		all = append(all, r)
		return nil
	})
	return h, all, err
}
