package findings

import (
	"math"
	"strconv"
	"strings"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/meshtrial/meshtrial/record"
)

// Istiod's metrics used for findings (pilot/pkg/xds/monitoring.go).
const (
	metricPushes      = "pilot_xds_pushes"
	metricPushedBytes = "pilot_xds_config_size_bytes_sum"
	metricConvergence = "pilot_proxy_convergence_time" // seconds
)

// each calls f with the labels and the value of each series of a metric.
func each(series map[string]float64, metric string, f func(label func(name string) string, v float64)) {
	p := parser.NewParser(parser.Options{})
	for key, v := range series {
		if !strings.HasPrefix(key, metric) {
			continue
		}
		if l, err := p.ParseMetric(key); err == nil && l.Get("__name__") == metric {
			f(l.Get, v)
		}
	}
}

// sumOf sums a metric over some types. It returns NaN if istiod has no such series, since not counted
// does not mean zero.
func sumOf(series map[string]float64, metric string, counts func(kind string) bool) float64 {
	sum, any := 0.0, false
	each(series, metric, func(label func(string) string, v float64) {
		if counts(label("type")) {
			sum, any = sum+v, true
		}
	})
	if !any {
		return math.NaN()
	}
	return sum
}

// pushes sums istiod's pushes of one type, or of all types for "". Failed pushes have types of their
// own (cds_senderr) and do not count.
func pushes(series map[string]float64, kind string) float64 {
	return sumOf(series, metricPushes, func(of string) bool { return !strings.Contains(of, "err") && (kind == "" || of == kind) })
}

// pushedBytes sums the resources that istiod pushed, in bytes, by its own count.
func pushedBytes(series map[string]float64) float64 {
	return sumOf(series, metricPushedBytes, func(string) bool { return true })
}

// reportedP99 returns istiod's own 99th percentile of convergence like histogram_quantile(0.99, sum
// by (le)), and the ends of the bucket in which it is interpolated, in seconds. The percentile is
// NaN if its histogram is empty.
func reportedP99(t *record.Trial) (p99, from, upto float64) {
	by := map[float64]float64{}
	each(t.Control.Istiod, metricConvergence+"_bucket", func(label func(string) string, v float64) {
		if upto, err := strconv.ParseFloat(label("le"), 64); err == nil { // including "+Inf"
			by[upto] += v
		}
	})
	var buckets promql.Buckets
	for upto, n := range by {
		buckets = append(buckets, promql.Bucket{UpperBound: upto, Count: n})
	}
	if len(buckets) == 0 {
		return math.NaN(), 0, 0
	}
	p99, _, _, _, _, _ = promql.BucketQuantile(0.99, buckets) // and sorts them
	for _, b := range buckets {
		if upto = b.UpperBound; p99 <= upto {
			break
		}
		from = upto
	}
	return p99, from, upto
}
