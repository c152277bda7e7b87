package load

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/meshtrial/meshtrial/internal/openmetrics"
	"github.com/meshtrial/meshtrial/internal/openmetrics/openmetricstest"

	"github.com/meshtrial/meshtrial/testing/must"
)

// scrape reads the metrics like a monitoring system.
func scrape(t *testing.T, l *Live) map[string]float64 {
	t.Helper()
	var page openmetrics.Page
	var text bytes.Buffer
	l.Page(&page)
	must.OK(t, page.Write(&text))
	return openmetricstest.Read(t, text.Bytes())
}

// Metrics of a run in progress only increase, and at its end match its report.
func TestLive(t *testing.T) {
	for _, protocol := range []string{"http1", "http2"} {
		t.Run(protocol, func(t *testing.T) {
			var n atomic.Int64
			target := plainServer(t, func(w http.ResponseWriter, _ *http.Request) {
				if n.Add(1)%5 == 0 {
					w.WriteHeader(http.StatusTeapot)
				}
			})
			spec := DefaultSpec(target.URL)
			spec.Protocol, spec.Rate, spec.DurationS, spec.IntervalS, spec.Connections = protocol, 400, 1, 0.05, 2
			each := make(chan struct{}, 100)
			running, err := Start(context.Background(), spec, func(Summary) { each <- struct{}{} })
			must.OK(t, err)
			live := running.Live()
			before := scrape(t, live)
			seen := 0
			for over := false; !over; {
				select {
				case <-each:
				case <-running.Done():
					over = true
				}
				now := scrape(t, live)
				for series, value := range now {
					if series != "meshtrial_load_in_flight" && value < before[series] {
						t.Errorf("%s falls from %v to %v", series, before[series], value)
					}
				}
				if c := now["meshtrial_load_completed_total"]; c > 0 && !over {
					seen++
				}
				before = now
			}
			if seen == 0 {
				t.Error("nothing was to be seen before the end")
			}
			result := ended(t, running)
			r := result.Report()
			if r.Completed == 0 || r.Failed[FailStatus] == 0 {
				t.Fatalf("%+v", r)
			}
			failed := int64(0)
			for kind, value := range r.Failed {
				failed += value
				if got := before[`meshtrial_load_failed_total{reason="`+kind+`"}`]; got != float64(value) {
					t.Errorf("%v failed by %s, want %d", got, kind, value)
				}
			}
			for series, want := range map[string]int64{
				"meshtrial_load_sent_total": r.Completed + failed, "meshtrial_load_in_flight": 0,
				"meshtrial_load_scheduled_total": r.Scheduled, "meshtrial_load_completed_total": r.Completed,
				"meshtrial_load_unfinished_total": r.Unfinished, "meshtrial_load_latency_seconds_count": r.Completed,
				"meshtrial_load_lag_seconds_count": r.Completed + failed,
			} {
				if before[series] != float64(want) {
					t.Errorf("%s is %v, want %d", series, before[series], want)
				}
			}
			mean := before["meshtrial_load_latency_seconds_sum"] / float64(r.Completed) * 1e6
			if mean < 0.99*r.Intended.Mean || mean > 1.01*r.Intended.Mean {
				t.Errorf("a mean of %v us, want %v", mean, r.Intended.Mean)
			}
			for series, value := range before {
				if bound, ok := strings.CutPrefix(series, `meshtrial_load_latency_seconds_bucket{le="60.0"`); ok && value != float64(r.Completed) {
					t.Errorf("%v up to the last bound %s", value, bound)
				}
			}
		})
	}
}

// A value counts in the first bucket that holds it.
func TestLiveBuckets(t *testing.T) {
	h := newPacked()
	for _, ns := range []int64{1, 10_000, 30_000, 2_000_000, histHighest} {
		must.OK(t, h.RecordValue(ns))
	}
	var l live
	l.add(h)
	for i, want := range map[int]uint64{0: 2, 2: 1, 7: 1, len(liveBounds) - 1: 1} {
		if l.counts[i] != want {
			t.Errorf("%d values up to %d ns, want %d", l.counts[i], liveBounds[i], want)
		}
	}
}
