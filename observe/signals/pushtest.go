package signals

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// PushTest has the results of the published control plane test for a span of
// time: its two figures and what they omit.
type PushTest struct {
	FromMS int64 `json:"from_unix_ms"`
	ToMS   int64 `json:"to_unix_ms"`
	// Pushes is the first figure: the increase of pilot_xds_pushes, one for each
	// proxy and type.
	Pushes       float64            `json:"pushes"`
	PushesByType map[string]float64 `json:"pushes_by_type"`
	// Convergence is pilot_proxy_convergence_time; its P99S is the second figure.
	Convergence Stage `json:"convergence"`
	// FirstBucketS is the bound of the histogram's first bucket, and
	// FirstBucketShare the share of observations in it.
	FirstBucketS     float64 `json:"first_bucket_s"`
	FirstBucketShare float64 `json:"first_bucket_share"`

	// Stages before that clock starts, or included in it.
	Debounce    Stage `json:"debounce"`
	PushContext Stage `json:"push_context"`
	Queue       Stage `json:"queue"`

	Proxies     float64  `json:"proxies"` // connected at the end
	ConfigBytes float64  `json:"config_bytes"`
	Missing     []string `json:"missing_metrics"`
	// Valid means that the figures are trustworthy; Warnings list the objections.
	Valid    bool     `json:"valid"`
	Warnings []string `json:"warnings"`
}

// Stage is a histogram of the span. P99S and MeanS are nil if nothing was
// observed or the metric is missing.
type Stage struct {
	Count float64  `json:"count"`
	MeanS *float64 `json:"mean_s"`
	P99S  *float64 `json:"p99_s"`
}

// MeasurePushTest reads the figures of a span from a source that has samples at
// both ends.
func MeasurePushTest(ctx context.Context, s Source, o Options, from, to time.Time) (PushTest, error) {
	t := PushTest{FromMS: from.UnixMilli(), ToMS: to.UnixMilli(), PushesByType: map[string]float64{}, Missing: []string{}, Warnings: []string{}, Valid: true}
	q := spanQuery{ctx: ctx, s: s, selector: braces(o.Selector), from: from, to: to}
	names := []string{"pilot_xds_pushes", "pilot_xds", "pilot_services", MetricLatency + "_bucket", "pilot_debounce_time_bucket",
		"pilot_pushcontext_init_seconds_bucket", "pilot_proxy_queue_time_bucket", "pilot_xds_config_size_bytes_sum"}
	has, err := s.Has(ctx, names, from.Add(-lookback), to)
	if err != nil {
		return t, err
	}
	for _, name := range names {
		if !has[name] {
			t.Missing = append(t.Missing, name)
		}
	}
	for _, part := range q.rises("pilot_xds_pushes", "type") {
		if part.Value != 0 {
			t.PushesByType[part.Labels["type"]] = part.Value
			t.Pushes += part.Value
		}
	}
	t.Convergence, t.FirstBucketS, t.FirstBucketShare = q.stage(MetricLatency)
	t.Debounce, _, _ = q.stage("pilot_debounce_time")
	t.PushContext, _, _ = q.stage("pilot_pushcontext_init_seconds")
	t.Queue, _, _ = q.stage("pilot_proxy_queue_time")
	t.ConfigBytes = q.total("pilot_xds_config_size_bytes_sum")
	t.Proxies = q.one("sum(pilot_xds" + q.selector + ")")
	restarts := q.rises("process_start_time_seconds", "pod, instance")
	if q.err != nil {
		return t, q.err
	}
	t.judge(has, restarts)
	return t, nil
}

// judge adds warnings about the figures.
func (t *PushTest) judge(has map[string]bool, restarts []Sample) {
	against := func(format string, args ...any) {
		t.Valid = false
		t.Warnings = append(t.Warnings, fmt.Sprintf(format, args...))
	}
	switch {
	case !has["pilot_services"]:
		against("the source has no metrics of an istiod (pilot_services is missing)")
	case t.Proxies == 0:
		against("no proxy is connected to istiod: there was nobody to push to")
	case t.Pushes == 0:
		against("istiod pushed nothing: did it see the resources? Its discoverySelectors may leave the namespace out")
	case t.Pushes < 0:
		against("pilot_xds_pushes fell during the test: istiod restarted, and its counters restarted")
	}
	if t.Pushes > 0 && t.Convergence.Count == 0 {
		against("%s observed nothing, though %.0f pushes were made", MetricLatency, t.Pushes)
	}
	for _, r := range restarts {
		if r.Value != 0 && strings.HasPrefix(r.Labels["pod"], "istiod") {
			against("%s started during the test: its counters restarted", r.Labels["pod"])
		}
	}
}

// spanQuery queries the increase of counters in a span. It stops at the first
// error.
type spanQuery struct {
	ctx      context.Context
	s        Source
	selector string
	from, to time.Time
	err      error
}

func (q *spanQuery) ask(expr string) []Sample {
	if q.err != nil {
		return nil
	}
	var samples []Sample
	samples, q.err = q.s.Instant(q.ctx, expr, q.to)
	return samples
}

// one returns the single value of an expression; 0 if it has none.
func (q *spanQuery) one(expr string) float64 {
	samples := q.ask(expr)
	if len(samples) != 1 || math.IsNaN(samples[0].Value) {
		return 0
	}
	return samples[0].Value
}

// at pins a metric to a moment (PromQL's @ modifier).
func (q *spanQuery) at(metric string, t time.Time) string {
	return metric + q.selector + " @ " + unixSeconds(t)
}

// difference returns the exact increase of an expression between the ends of the
// span; increase() would extrapolate. Series missing at the beginning count as
// zero.
func (q *spanQuery) difference(at func(time.Time) string) string {
	end := at(q.to)
	return fmt.Sprintf("%s - (%s or 0 * %s)", end, at(q.from), end)
}

// sum returns a metric summed by labels.
func (q *spanQuery) sum(metric, by string) func(time.Time) string {
	return func(t time.Time) string { return fmt.Sprintf("sum by (%s) (%s)", by, q.at(metric, t)) }
}

func (q *spanQuery) rises(metric, by string) []Sample { return q.ask(q.difference(q.sum(metric, by))) }

// total returns the increase of a counter over all series.
func (q *spanQuery) total(metric string) float64 { return q.one(q.difference(q.sum(metric, ""))) }

// stage reads a histogram of the span, with its first bucket's bound and share.
func (q *spanQuery) stage(metric string) (s Stage, bound, share float64) {
	s.Count = q.total(metric + "_count")
	if s.Count <= 0 {
		return s, 0, 0
	}
	of := q.sum(metric+"_bucket", "le")
	mean := q.total(metric+"_sum") / s.Count
	p99 := q.one("histogram_quantile(0.99, " + q.difference(of) + ")")
	s.MeanS, s.P99S = &mean, &p99
	bound = math.Inf(1)
	for _, bucket := range q.ask(q.difference(of)) {
		if le, err := strconv.ParseFloat(bucket.Labels["le"], 64); err == nil && le < bound {
			bound, share = le, bucket.Value/s.Count
		}
	}
	return s, bound, share
}

// LeftOut describes, in words, what the two figures omit.
func (t PushTest) LeftOut() []string {
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if c := t.Convergence; c.P99S != nil {
		switch {
		case t.FirstBucketShare == 1:
			say("All %.0f observations lie in the histogram's first bucket, which ends at %s. Any test in which no push takes longer gives this p99, "+
				"99%% of the way through that bucket. Their mean is %s.", c.Count, Seconds(t.FirstBucketS), Seconds(*c.MeanS))
		case *c.P99S <= t.FirstBucketS:
			say("The p99 lies in the histogram's first bucket: it is below %s, and not known better. The mean is %s.", Seconds(t.FirstBucketS), Seconds(*c.MeanS))
		default:
			say("%.3g%% of %.0f observations lie in the histogram's first bucket, below %s. The mean is %s.", 100*t.FirstBucketShare, c.Count, Seconds(t.FirstBucketS), Seconds(*c.MeanS))
		}
	}
	switch d := t.Debounce; {
	case d.MeanS != nil:
		context := ""
		if t.PushContext.MeanS != nil {
			context = fmt.Sprintf(" (%s of it to compute the push context)", Seconds(*t.PushContext.MeanS))
		}
		say("Debounce: istiod gathered changes %.0f times and waited %s a time%s, before the clock of this latency started.", d.Count, Seconds(*d.MeanS), context)
	case slices.Contains(t.Missing, "pilot_debounce_time_bucket"):
		say("Debounce: this source has no pilot_debounce_time, so how long istiod gathered changes is not known. The latency starts only after that.")
	default:
		say("Debounce: pilot_debounce_time observed nothing, so how long istiod gathered changes is not known. The latency starts only after that.")
	}
	say("The acknowledgement: the clock stops when istiod's write returns. Whether and when a proxy read, accepted and applied the configuration is not in it.")
	say("The way to istiod: from the API server's commit to istiod's watch is not in it.")
	say("A push is one type of configuration sent to one proxy, however large. In this test they carried %s.", byteCount(t.ConfigBytes, "bytes"))
	return out
}

// byteCount formats bytes; one is their unit where they are few.
func byteCount(b float64, one string) string {
	switch {
	case b >= 1e6:
		return digits(b/1e6) + " MB"
	case b >= 1e3:
		return digits(b/1e3) + " kB"
	}
	return digits(b) + " " + one
}
