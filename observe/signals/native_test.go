package signals

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	prom "github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"

	"github.com/meshtrial/meshtrial/testing/must"
)

// scraped is what a Prometheus server stores of pages, parsed as in its scrape loop.
type scraped struct {
	t       *testing.T
	of      labels.Labels
	keep    bool // always_scrape_classic_histograms
	classic bool // without convert_classic_histograms_to_nhcb
	native  func(*prom.FloatHistogram) *prom.FloatHistogram
	series  map[string]*scrapedSeries
}

type scrapedSeries struct {
	labels  labels.Labels
	samples []chunks.Sample
}

type scrapedSample struct {
	ms int64
	f  float64
	fh *prom.FloatHistogram
}

func (s scrapedSample) T() int64                 { return s.ms }
func (s scrapedSample) ST() int64                { return 0 }
func (s scrapedSample) F() float64               { return s.f }
func (s scrapedSample) H() *prom.Histogram       { return nil }
func (s scrapedSample) FH() *prom.FloatHistogram { return s.fh.Copy() } // the engine modifies its argument
func (s scrapedSample) Copy() chunks.Sample      { return s }
func (s scrapedSample) Type() chunkenc.ValueType {
	if s.fh != nil {
		return chunkenc.ValFloatHistogram
	}
	return chunkenc.ValFloat
}

// page stores a page with its classic histograms converted to native ones, as with
// convert_classic_histograms_to_nhcb.
func (s *scraped) page(at time.Time, page string) {
	s.t.Helper()
	symbols := labels.NewSymbolTable()
	p := textparse.NewPromParser([]byte(page), symbols, false)
	if !s.classic {
		p = textparse.NewNHCBParser(p, symbols, s.keep)
	}
	for {
		entry, err := p.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		must.OK(s.t, err)
		sample := scrapedSample{ms: at.UnixMilli()}
		switch entry {
		case textparse.EntrySeries:
			_, _, sample.f = p.Series()
		case textparse.EntryHistogram:
			_, _, h, fh := p.Histogram()
			if fh == nil {
				fh = h.ToFloat(nil)
			}
			sample.fh = fh.Copy()
			if s.native != nil {
				sample.fh = s.native(sample.fh)
			}
		default:
			continue
		}
		var own labels.Labels
		p.Labels(&own)
		b := labels.NewBuilder(own.Copy())
		s.of.Range(func(l labels.Label) { b.Set(l.Name, l.Value) })
		l := b.Labels()
		if s.series[l.String()] == nil {
			s.series[l.String()] = &scrapedSeries{labels: l}
		}
		to := s.series[l.String()]
		to.samples = append(to.samples, sample)
	}
}

func (s *scraped) Querier(from, to int64) (storage.Querier, error) {
	return &storage.MockQuerier{SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
		found := &seriesSet{}
		for _, series := range s.series {
			if slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(series.labels.Get(m.Name)) }) {
				continue
			}
			var within []chunks.Sample
			for _, one := range series.samples {
				if one.T() >= from && one.T() <= to {
					within = append(within, one)
				}
			}
			if within != nil {
				found.series = append(found.series, storage.NewListSeries(series.labels, within))
			}
		}
		slices.SortFunc(found.series, func(a, b storage.Series) int { return labels.Compare(a.Labels(), b.Labels()) })
		return found
	}}, nil
}

// serve returns a Prometheus that has the pages.
func (s *scraped) serve() *Remote {
	s.t.Helper()
	server := httptest.NewServer(prometheusAPI(s.t, s))
	s.t.Cleanup(server.Close)
	remote, err := NewRemote(server.URL, nil)
	must.OK(s.t, err)
	s.t.Cleanup(func() { remote.Close() })
	return remote
}

// prometheusAPI serves the three calls of Prometheus's HTTP API that are used, with
// Prometheus's own engine.
func prometheusAPI(t *testing.T, series storage.Queryable) http.Handler {
	engine := newEngine()
	moment := func(text string) time.Time {
		seconds, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Error(err)
		}
		return time.UnixMilli(int64(math.Round(seconds * 1000)))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var query promql.Query
		var err error
		expr, named := r.FormValue("query"), strings.HasSuffix(r.URL.Path, "/api/v1/label/__name__/values")
		switch {
		case named:
			expr = "count by (__name__) (" + r.FormValue("match[]") + ")"
			query, err = engine.NewInstantQuery(r.Context(), series, nil, expr, moment(r.FormValue("end")))
		case strings.HasSuffix(r.URL.Path, "/api/v1/query"):
			query, err = engine.NewInstantQuery(r.Context(), series, nil, expr, moment(r.FormValue("time")))
		case strings.HasSuffix(r.URL.Path, "/api/v1/query_range"):
			step, _ := strconv.ParseFloat(r.FormValue("step"), 64)
			query, err = engine.NewRangeQuery(r.Context(), series, nil, expr, moment(r.FormValue("start")), moment(r.FormValue("end")), time.Duration(step*1e9))
		default:
			http.NotFound(w, r)
			return
		}
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			json.NewEncoder(w).Encode(map[string]any{"status": "error", "errorType": "bad_data", "error": err.Error()})
			return
		}
		defer query.Close()
		result := query.Exec(r.Context())
		if warnings, _ := result.Warnings.AsStrings(expr, 5, 0); result.Err != nil || len(warnings) > 0 {
			t.Errorf("%s: %v %v", expr, result.Err, warnings)
		}
		var data any = answered(result.Value)
		if vector, ok := result.Value.(promql.Vector); named && ok {
			names := []string{}
			for _, one := range vector {
				names = append(names, one.Metric.Get(metricName))
			}
			data = names
		}
		json.NewEncoder(w).Encode(map[string]any{"status": "success", "data": data})
	})
}

// answered returns a result in the API's format.
func answered(v any) map[string]any {
	number := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	spelled := func(h *prom.FloatHistogram) map[string]any {
		var buckets [][]any
		for it := h.AllBucketIterator(); it.Next(); {
			if b := it.At(); b.Count != 0 {
				buckets = append(buckets, []any{0, number(b.Lower), number(b.Upper), number(b.Count)})
			}
		}
		return map[string]any{"count": number(h.Count), "sum": number(h.Sum), "buckets": buckets}
	}
	result := []any{}
	switch v := v.(type) {
	case promql.Vector:
		for _, s := range v {
			one := map[string]any{"metric": s.Metric.Map()}
			if s.H != nil {
				one["histogram"] = []any{float64(s.T) / 1000, spelled(s.H)}
			} else {
				one["value"] = []any{float64(s.T) / 1000, number(s.F)}
			}
			result = append(result, one)
		}
		return map[string]any{"resultType": "vector", "result": result}
	case promql.Matrix:
		for _, s := range v {
			one := map[string]any{"metric": s.Metric.Map()}
			values, histograms := []any{}, []any{}
			for _, p := range s.Floats {
				values = append(values, []any{float64(p.T) / 1000, number(p.F)})
			}
			for _, p := range s.Histograms {
				histograms = append(histograms, []any{float64(p.T) / 1000, spelled(p.H)})
			}
			if len(values) > 0 {
				one["values"] = values
			}
			if len(histograms) > 0 {
				one["histograms"] = histograms
			}
			result = append(result, one)
		}
		return map[string]any{"resultType": "matrix", "result": result}
	}
	return nil
}

// scrape returns a server that scraped two pages, ten seconds apart.
func scrape(t *testing.T, keep bool, first, second string) *scraped {
	t.Helper()
	s := &scraped{t: t, of: labels.FromMap(istiodLabels), keep: keep, series: map[string]*scrapedSeries{}}
	s.page(after(0), first)
	s.page(after(10), second)
	return s
}

// A server that stores histograms natively, or in both ways, yields the same signals as the
// classic series.
func TestReadNative(t *testing.T) {
	page := func(counts [4]int, bytes float64) string {
		text := ""
		for _, f := range families {
			text += histogram(f.metric, float64(counts[3])*0.8, bounds, counts[:]...)
		}
		return text + fmt.Sprintf("# TYPE pilot_xds_config_size_bytes histogram\npilot_xds_config_size_bytes_bucket{type=\"cds\",le=\"+Inf\"} 9\n"+
			"pilot_xds_config_size_bytes_sum{type=\"cds\"} %g\npilot_xds_config_size_bytes_count{type=\"cds\"} 9\n", bytes)
	}
	for name, counts := range map[string][4]int{"spread": {55, 95, 105, 110}, "first bucket": {100, 100, 100, 100}, "beyond": {5, 5, 5, 105}, "nothing": {5, 5, 5, 5}} {
		first, second := page([4]int{5, 5, 5, 5}, 100), page(counts, 1100)
		want, err := Read(t.Context(), twoPages(t, first, second), tenSeconds, after(10))
		must.OK(t, err)
		for _, keep := range []bool{false, true} {
			got, err := Read(t.Context(), scrape(t, keep, first, second).serve(), tenSeconds, after(10))
			must.OK(t, err)
			if !slices.Equal(got.Missing, want.Missing) {
				t.Errorf("%s, with classic ones %v: missing %v, want %v", name, keep, got.Missing, want.Missing)
			}
			for i, v := range got.Signals {
				w := want.Signals[i]
				same := v.Status == w.Status && v.Bucket == w.Bucket && v.LowS == w.LowS && v.HighS == w.HighS && (v.Value == nil) == (w.Value == nil)
				if !same || v.Value != nil && math.Abs(*v.Value-*w.Value) > 1e-9**w.Value {
					t.Errorf("%s, with classic ones %v: %+v, want %+v", name, keep, v, w)
				}
			}
		}
	}
}

// Exported expressions work with both kinds of servers: each yields the same series over
// classic histograms, native ones, and both.
func TestExportsNative(t *testing.T) {
	first, second := fixtures(t)
	o := tenSeconds.withDefaults()
	of := func(expr string, s Source) map[string]float64 {
		samples, err := s.Instant(t.Context(), expr, after(10))
		must.OK(t, err)
		out := map[string]float64{}
		for _, sample := range samples {
			if !math.IsNaN(sample.Value) {
				out[spell("", sample.Labels)] = sample.Value
			}
		}
		return out
	}
	classic := &scraped{t: t, of: labels.FromMap(istiodLabels), classic: true, series: map[string]*scrapedSeries{}}
	classic.page(after(0), first)
	classic.page(after(10), second)
	plain, native, both := classic.serve(), scrape(t, false, first, second).serve(), scrape(t, true, first, second).serve()
	exprs := []string{}
	for _, s := range Table(o) {
		exprs = append(exprs, s.Expr)
	}
	for _, r := range Rules(o) {
		exprs = append(exprs, r.Expr)
	}
	compared := 0
	for _, expr := range exprs {
		want := of(expr, plain)
		for name, s := range map[string]Source{"native": native, "both": both} {
			got := of(expr, s)
			if len(got) != len(want) {
				t.Errorf("%s: %s gives %v, want %v", name, expr, got, want)
			}
			for key, v := range want {
				if compared++; !(math.Abs(got[key]-v) <= 1e-9*math.Abs(v)) {
					t.Errorf("%s: %s gives %s %v, want %v", name, expr, key, got[key], v)
				}
			}
		}
	}
	if compared < 50 {
		t.Errorf("%d values compared", compared)
	}
	w := NewWatch(native, Options{Window: time.Minute})
	must.OK(t, w.Replay(t.Context(), after(9), after(11), time.Second))
	if got := w.Alerts()[0].State; got != StateInactive {
		t.Errorf("the alert over a native histogram is %s", got)
	}
}

// The test of a span yields the same figures over native histograms.
func TestPushTestNative(t *testing.T) {
	const proxies = "pilot_services 3\npilot_xds 2\n# TYPE pilot_xds_pushes counter\npilot_xds_pushes{type=\"eds\"} %d\n"
	pages := map[string][2]string{
		"spread": {fmt.Sprintf(proxies, 1) + histogram(MetricLatency, 1, bounds, 1, 1, 1, 1), fmt.Sprintf(proxies, 40) + histogram(MetricLatency, 61, bounds, 11, 21, 41, 41)},
		"first":  {fmt.Sprintf(proxies, 0) + histogram(MetricLatency, 1, bounds, 1, 1, 1, 1), fmt.Sprintf(proxies, 40) + histogram(MetricLatency, 2, bounds, 11, 11, 11, 11)},
		"new":    {fmt.Sprintf(proxies, 1), fmt.Sprintf(proxies, 40) + histogram(MetricLatency, 2, bounds, 0, 11, 11, 11)},
	}
	before, now := fixtures(t)
	pages["recorded"] = [2]string{before, now}
	for name, p := range pages {
		want, err := MeasurePushTest(t.Context(), twoPages(t, p[0], p[1]), Options{}, after(0), after(10))
		must.OK(t, err)
		got, err := MeasurePushTest(t.Context(), scrape(t, false, p[0], p[1]).serve(), Options{}, after(0), after(10))
		must.OK(t, err)
		if name == "new" {
			// A native histogram lacks the bound of a bucket without observations. Still, none
			// lie below the bound of the next bucket.
			want.FirstBucketS = 0.1
		}
		a, b := fmt.Sprintf("%+v", spellStages(got)), fmt.Sprintf("%+v", spellStages(want))
		if a != b {
			t.Errorf("%s:\n%s, want\n%s", name, a, b)
		}
	}
}

// spellStages formats figures as text, without the last bits, which depend on the order of
// sums.
func spellStages(p PushTest) string {
	stage := func(s Stage) string {
		if s.P99S == nil {
			return "none"
		}
		return fmt.Sprintf("%g %.9g %.9g", s.Count, *s.MeanS, *s.P99S)
	}
	return fmt.Sprint(p.Pushes, " ", stage(p.Convergence), " ", stage(p.Debounce), " ", stage(p.PushContext), " ", stage(p.Queue), " ",
		p.FirstBucketS, " ", p.FirstBucketShare, " ", p.ConfigBytes, " ", p.Missing, p.Valid, p.Warnings)
}

// Histograms that an application itself stores with exponential buckets are also read.
func TestReadExponential(t *testing.T) {
	s := &scraped{t: t, of: labels.FromMap(istiodLabels), series: map[string]*scrapedSeries{}}
	s.native = func(h *prom.FloatHistogram) *prom.FloatHistogram {
		// Nine of ten observations are in (0.5, 1] and one in (1, 2].
		return &prom.FloatHistogram{Schema: 0, ZeroThreshold: 1e-128, Count: h.Count, Sum: 0.9 * h.Count,
			PositiveSpans: []prom.Span{{Offset: 0, Length: 2}}, PositiveBuckets: []float64{0.9 * h.Count, 0.1 * h.Count}}
	}
	s.page(after(0), histogram(MetricLatency, 0, bounds, 0, 0, 0, 0))
	s.page(after(10), histogram(MetricLatency, 9, bounds, 0, 9, 10, 10))
	r, err := Read(t.Context(), s.serve(), tenSeconds, after(10))
	must.OK(t, err)
	for key, c := range map[string]struct{ value, tolerance, low, high float64 }{
		"convergence_istiod_mean": {0.9, 1e-9, 0, 0}, "convergence_istiod_p50": {0.75, 0.1, 0.5, 1}, "convergence_istiod_p99": {1.9, 0.1, 1, 2},
	} {
		v, _ := r.Find(key)
		if v.Status != StatusOK || math.Abs(*v.Value-c.value) > c.tolerance || v.LowS != c.low || v.HighS != c.high || v.Bucket != "" {
			t.Errorf("%s: %+v", key, v)
		}
	}
}

// A quantile of the series is not attributed to a bucket of the native histogram next to it,
// whose bounds may differ.
func TestReadBothBounds(t *testing.T) {
	s := &scraped{t: t, of: labels.FromMap(istiodLabels), keep: true, series: map[string]*scrapedSeries{}}
	s.native = func(h *prom.FloatHistogram) *prom.FloatHistogram {
		return &prom.FloatHistogram{Schema: 0, ZeroThreshold: 1e-128, Count: h.Count, Sum: 0.9 * h.Count,
			PositiveSpans: []prom.Span{{Offset: 0, Length: 2}}, PositiveBuckets: []float64{0.9 * h.Count, 0.1 * h.Count}}
	}
	first, second := histogram(MetricLatency, 0, bounds, 0, 0, 0, 0), histogram(MetricLatency, 9, bounds, 0, 9, 10, 10)
	s.page(after(0), first)
	s.page(after(10), second)
	got, err := Read(t.Context(), s.serve(), tenSeconds, after(10))
	must.OK(t, err)
	want, err := Read(t.Context(), twoPages(t, first, second), tenSeconds, after(10))
	must.OK(t, err)
	for _, key := range []string{"convergence_istiod_p50", "convergence_istiod_p99"} {
		v, _ := got.Find(key)
		w, _ := want.Find(key)
		if v.Value == nil || math.Abs(*v.Value-*w.Value) > 1e-9 || v.LowS != w.LowS || v.HighS != w.HighS || v.Bucket != w.Bucket {
			t.Errorf("%s: %+v, want %+v", key, v, w)
		}
	}
}

// Responses with histograms are read if possible, and never mistaken for numbers.
func TestHistogramAnswers(t *testing.T) {
	const vector = `{"resultType":"vector","result":[{"metric":{"__name__":"h"},"histogram":[%s]}]}`
	for text, want := range map[string]string{
		`1.5,{"count":"3","sum":"2.5","buckets":[[3,"-0.25","0.25","1"],[0,"0.25","+Inf","2"]]}`: "{3 2.5 [{-0.25 0.25 1} {0.25 +Inf 2}]}",
		`1.5,{"count":"0","sum":"0"}`: "{0 0 []}",
		`1.5`:                         "error",
		`1.5,{"count":"x","sum":"0"}`: "error",
		`1.5,{"count":"1","sum":"0","buckets":[[0,"1","2"]]}`:                     "error",
		`1.5,{"count":"1","sum":"0","buckets":[[0,"2","1","1"]]}`:                 "error",
		`1.5,{"count":"1","sum":"0","buckets":[[0,"NaN","1","1"]]}`:               "error",
		`1.5,{"count":"1","sum":"0","buckets":[[0,"1","2","1"],[0,"0","1","1"]]}`: "error",
	} {
		samples, newest, err := parseInstant(json.RawMessage(fmt.Sprintf(vector, text)))
		got := "error"
		if err == nil {
			got = fmt.Sprint(*samples[0].Histogram)
			if !math.IsNaN(samples[0].Value) || newest != 1500 || samples[0].Name != "h" {
				t.Errorf("%s: %+v at %d", text, samples[0], newest)
			}
		}
		if got != want {
			t.Errorf("%s: %s, want %s (%v)", text, got, want, err)
		}
	}
	if _, err := parseRange(json.RawMessage(`{"resultType":"matrix","result":[{"metric":{},"histograms":[[1,{"count":"1","sum":"1"}]]}]}`)); err == nil {
		t.Error("a histogram over time was taken for numbers")
	}
}
