package load

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"pgregory.net/rapid"

	"github.com/meshtrial/meshtrial/testing/must"
)

// drawResult draws a result with n intervals.
func drawResult(t *rapid.T, n int) *Result {
	r := &Result{Spec: DefaultSpec("http://h/"), Start: time.UnixMilli(1_790_000_000_000), Replicas: 1, EndNS: int64(n) * 250e6}
	value := rapid.Int64Range(0, histHighest)
	for i := range n {
		iv := emptyInterval(&Interval{Index: i, StartNS: int64(i) * 250e6})
		iv.DurationNS = 250e6
		iv.Failed = map[string]int64{}
		for range rapid.IntRange(0, 20).Draw(t, "requests") {
			iv.Scheduled++
			switch rapid.IntRange(0, 2).Draw(t, "outcome") {
			case 0:
				iv.Completed++
				_ = iv.Intended.RecordValue(value.Draw(t, "intended"))
				_ = iv.Send.RecordValue(value.Draw(t, "send"))
				_ = iv.Lag.RecordValue(value.Draw(t, "lag"))
				_ = iv.Wait.RecordValue(value.Draw(t, "wait"))
			case 1:
				iv.Failed[rapid.SampledFrom(kinds[:]).Draw(t, "kind")]++
			case 2:
				iv.Unfinished++
			}
		}
		iv.BytesRead, iv.MaxInFlight, iv.CPU = iv.Completed*10, 3, CPU{User: 0.25, System: 0.5}
		r.Intervals = append(r.Intervals, iv)
	}
	return r
}

// same compares windows: every count and every bucket.
func same(t *rapid.T, what string, got, want *Window) {
	gj, _ := json.Marshal(got.Account)
	wj, _ := json.Marshal(want.Account)
	if string(gj) != string(wj) {
		t.Fatalf("%s: account %s, want %s", what, gj, wj)
	}
	for name, pair := range map[string][2]*hdrhistogram.Histogram{
		"intended": {got.Intended, want.Intended}, "send": {got.Send, want.Send}, "lag": {got.Lag, want.Lag}, "wait": {got.Wait, want.Wait},
	} {
		if !pair[0].Equals(pair[1]) {
			t.Fatalf("%s: the %s histogram differs", what, name)
		}
	}
	if got.CPU != want.CPU || got.BytesRead != want.BytesRead || got.DurationNS != want.DurationNS {
		t.Fatalf("%s: %+v, want %+v", what, got, want)
	}
}

func TestStreamIsLossless(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := drawResult(rt, rapid.IntRange(0, 4).Draw(rt, "intervals"))
		back := reread(t, r)
		if !back.Start.Equal(r.Start) || back.EndNS != r.EndNS || len(back.Intervals) != len(r.Intervals) {
			rt.Fatalf("%+v became %+v", r, back)
		}
		same(rt, "round trip", back.Total(), r.Total())
	})
}

func TestLogIsLossless(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 4).Draw(t, "intervals")
		r := drawResult(t, n)
		var log bytes.Buffer
		must.OK(t, r.WriteLog(&log, 0, n))
		count, sums := 0, map[string]*hdrhistogram.Histogram{TagIntended: NewHistogram(), TagSend: NewHistogram()}
		for theirs := hdrhistogram.NewHistogramLogReader(&log); ; count++ { // as other tools read it
			h, err := theirs.NextIntervalHistogram()
			must.OK(t, err)
			if h == nil {
				break
			}
			start := r.Start.Add(time.Duration(count/2) * 250 * time.Millisecond).UnixMilli()
			if from, length := h.StartTimeMs()-start, h.EndTimeMs()-h.StartTimeMs(); from < -1 || from > 1 || length < 249 || length > 251 {
				t.Fatalf("entry %d is from %d to %d, want from %d", count, h.StartTimeMs(), h.EndTimeMs(), start)
			}
			if sum := sums[h.Tag()]; sum == nil || sum.Merge(h) > 0 {
				t.Fatalf("entry %d, tag %q, does not add up", count, h.Tag())
			}
		}
		w := r.Total()
		if count != 2*n || n > 0 && (!sums[TagIntended].Equals(w.Intended) || !sums[TagSend].Equals(w.Send)) {
			t.Fatalf("%d entries, want %d; or the sums differ", count, 2*n)
		}
	})
}

func TestMergeAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := drawResult(t, rapid.IntRange(0, 3).Draw(t, "a"))
		b := drawResult(t, rapid.IntRange(0, 3).Draw(t, "b"))
		m, err := Merge(a, b)
		must.OK(t, err)
		wa, wb, got := a.Total(), b.Total(), m.Total()
		if got.Scheduled != wa.Scheduled+wb.Scheduled || got.Completed != wa.Completed+wb.Completed || !got.Balanced() {
			t.Fatalf("%+v and %+v became %+v", wa.Account, wb.Account, got.Account)
		}
		wa.Intended.Merge(wb.Intended)
		wa.Wait.Merge(wb.Wait)
		if !got.Intended.Equals(wa.Intended) || !got.Wait.Equals(wa.Wait) || m.Replicas != 2 {
			t.Fatal("histograms do not add up")
		}
	})
	short := drawnOnce(t)
	short.Spec.IntervalS = 1
	if _, err := Merge(drawnOnce(t), short); err == nil {
		t.Error("other intervals were merged")
	}
}

func drawnOnce(*testing.T) *Result {
	return rapid.Custom(func(t *rapid.T) *Result { return drawResult(t, 1) }).Example(1)
}

// TestJudge checks that each reason to distrust a window is named.
func TestJudge(t *testing.T) {
	good := func() *Window {
		r := &Result{Intervals: []Interval{emptyInterval(&Interval{})}}
		iv := &r.Intervals[0]
		iv.DurationNS, iv.Scheduled, iv.Completed = 1e9, 1000, 1000
		for range 1000 {
			_ = iv.Intended.RecordValue(1e6)
			_ = iv.Send.RecordValue(1e6)
			_ = iv.Lag.RecordValue(1e4)
			_ = iv.Wait.RecordValue(0)
		}
		return r.Total()
	}
	for name, tt := range map[string]struct {
		change func(*Window)
		valid  bool
		want   string
	}{
		"good":       {func(w *Window) {}, true, ""},
		"unbalanced": {func(w *Window) { w.Scheduled++ }, false, "do not add up"},
		"some failed": {func(w *Window) {
			w.Scheduled += 10
			w.Failed[FailReset] = 10
		}, true, "0.99% of the requests have no latency (10 reset, 0 unfinished)"},
		"many failed": {func(w *Window) {
			w.Scheduled += 1000
			w.Unfinished = 1000
		}, false, "percentiles of the others are misleading"},
		"none":      {func(w *Window) { w.Completed, w.Failed[FailEOF] = 0, 1000 }, false, "no request completed"},
		"lag":       {func(w *Window) { _ = w.Lag.RecordValues(2e6, 2000) }, false, "the generator itself"},
		"tail lag":  {func(w *Window) { _ = w.Lag.RecordValues(2e6, 20) }, true, "sent 1% of the requests over"},
		"small lag": {func(w *Window) { _ = w.Lag.RecordValues(9e4, 2000) }, true, ""},
		"wait":      {func(w *Window) { _ = w.Wait.RecordValues(5e6, 100) }, true, "few for this rate"},
		"cpu":       {func(w *Window) { w.CPU = CPU{User: 0.5, System: 0.48} }, true, "98% of its CPU"},
		"remade":    {func(w *Window) { w.Connects = 500 }, true, "one for every 2 requests"},
		"few anew":  {func(w *Window) { w.Connects = 10 }, true, ""},
		"clamped":   {func(w *Window) { w.Clamped = 1 }, true, "above 60 s"},
	} {
		w := good()
		tt.change(w)
		spec := DefaultSpec("http://h/")
		v := Judge(w, &spec)
		text := strings.Join(v.Warnings, "; ")
		if v.Valid != tt.valid || !strings.Contains(text, tt.want) || (tt.want == "") != (text == "") {
			t.Errorf("%s: valid %v, %q; want %v, %q", name, v.Valid, text, tt.valid, tt.want)
		}
	}
}

func TestReportOfARun(t *testing.T) {
	addr := okServer(t)
	r, err := Run(context.Background(), quick("http://"+addr+"/"), nil)
	must.OK(t, err)
	data, err := json.Marshal(r.Report())
	must.OK(t, err)
	var doc map[string]any
	must.OK(t, json.Unmarshal(data, &doc))
	for _, key := range []string{
		"schema", "url", "arrival", "rate_rps", "connections", "duration_s", "scheduled", "completed", "failed", "unfinished",
		"achieved_rps", "latency_intended_us", "latency_send_us", "schedule_lag_us", "cpu_s", "valid", "warnings",
	} {
		if _, ok := doc[key]; !ok {
			t.Errorf("no %s in %s", key, data)
		}
	}
	for _, key := range []string{"min", "p50", "p90", "p99", "p999", "max", "mean"} {
		if v, ok := doc["latency_intended_us"].(map[string]any)[key].(float64); !ok || v <= 0 {
			t.Errorf("latency_intended_us.%s is %v", key, v)
		}
	}
}
