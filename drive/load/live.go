package load

import (
	"sync"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/meshtrial/meshtrial/internal/openmetrics"
)

// Live provides the metrics of a run in progress, safe for concurrent use. They cost the run
// nothing: sent and in-flight requests are read from the counters of [Running.Progress], and
// everything else from finished intervals, which are added up on demand.
type Live struct {
	running *Running

	mu           sync.Mutex
	next         int // interval
	account      Account
	latency, lag live
}

// live holds the counts of a histogram by [liveBounds], and their sum in seconds.
type live struct {
	counts [len(liveBounds)]uint64
	sum    float64
}

// liveBounds are the upper bounds of the buckets of live histograms, in nanoseconds. The last
// is the largest recorded value.
var liveBounds = [...]int64{
	10e3, 25e3, 50e3, 100e3, 250e3, 500e3, 1e6, 2.5e6, 5e6, 10e6, 25e6, 50e6,
	100e6, 250e6, 500e6, 1e9, 2.5e9, 5e9, 10e9, 25e9, histHighest,
}

// Live returns the run's metrics.
func (r *Running) Live() *Live { return &Live{running: r} }

// Page adds the current metrics. At the run's end they match its [Result].
func (l *Live) Page(page *openmetrics.Page) {
	now := l.running.Progress()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, iv := range l.running.finished(l.next) {
		l.next++
		l.account.add(iv.Account)
		l.latency.add(iv.Intended)
		l.lag.add(iv.Lag)
	}
	metric := func(name, help string) openmetrics.Metric {
		return openmetrics.Metric{Name: "meshtrial_load_" + name, Help: help}
	}
	page.Counter(metric("sent", "Requests sent."), float64(now.Sent))
	page.Gauge(metric("in_flight", "Requests sent that have neither completed nor failed."), float64(now.Sent-now.Completed-now.Failed))
	page.Counter(metric("scheduled", "Requests due in finished intervals."), float64(l.account.Scheduled))
	page.Counter(metric("completed", "Requests due in finished intervals that completed."), float64(l.account.Completed))
	failed := metric("failed", "Requests due in finished intervals that failed, by reason.")
	for _, kind := range kinds {
		page.Counter(failed, float64(l.account.Failed[kind]), "reason", kind)
	}
	page.Counter(metric("unfinished", "Requests due in finished intervals that had not ended when the run did."), float64(l.account.Unfinished))
	seconds := func(name, help string, h *live) {
		m := metric(name, help)
		m.Unit = "seconds"
		h.page(page, m)
	}
	seconds("latency", "From the intended send time to the end, of requests that completed.", &l.latency)
	seconds("lag", "How late the generator itself sent requests.", &l.lag)
}

// add adds the counts of an interval.
func (h *live) add(more *hdrhistogram.PackedHistogram) {
	at := 0
	more.ForEachBucket(func(ns, count int64) bool {
		for at < len(liveBounds)-1 && ns > liveBounds[at] {
			at++
		}
		h.counts[at] += uint64(count)
		h.sum += float64(ns) * 1e-9 * float64(count)
		return true
	})
}

func (h *live) page(page *openmetrics.Page, m openmetrics.Metric) {
	var buckets []openmetrics.Bucket
	var all uint64
	for i, n := range h.counts {
		all += n
		buckets = append(buckets, openmetrics.Bucket{UpTo: float64(liveBounds[i]) * 1e-9, Count: all})
	}
	page.Histogram(m, buckets, h.sum)
}

// finished returns the finished intervals from index from on.
func (r *Running) finished(from int) []Interval {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Interval(nil), r.result.Intervals[from:]...)
}
