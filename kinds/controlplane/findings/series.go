package findings

import (
	"math"
	"sort"
	"strconv"
	"strings"
)

// Istiod's metrics used for findings (pilot/pkg/xds/monitoring.go).
const (
	metricPushes      = "pilot_xds_pushes"
	metricPushedBytes = "pilot_xds_config_size_bytes_sum"
	metricConvergence = "pilot_proxy_convergence_time" // seconds
)

// parseSeries parses the name and labels of a series in Prometheus' text format:
// name{label="value",...}, with \\, \" and
// in values. ok is false for anything else.
func parseSeries(key string) (name string, labels map[string]string, ok bool) {
	name, rest, found := strings.Cut(key, "{")
	if name == "" {
		return "", nil, false
	}
	labels = map[string]string{}
	if !found {
		return name, labels, true
	}
	for {
		rest = strings.TrimLeft(rest, " ,")
		if rest == "}" {
			return name, labels, true
		}
		label, value, found := strings.Cut(rest, `="`)
		if !found || label == "" {
			return "", nil, false
		}
		text, end := unquote(value)
		if end < 0 {
			return "", nil, false
		}
		labels[strings.TrimSpace(label)] = text
		rest = value[end:]
	}
}

// unquote reads a label's value up to the closing quote; end is the position after it, -1 if there
// is none.
func unquote(s string) (text string, end int) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '"':
			return b.String(), i + 1
		case s[i] == '\\' && i+1 < len(s):
			i++
			if s[i] == 'n' {
				b.WriteByte('\n')
			} else {
				b.WriteByte(s[i])
			}
		default:
			b.WriteByte(s[i])
		}
	}
	return "", -1
}

// pushes sums istiod's pushes of one type, or of all types for "". It returns NaN if istiod has no
// such series, since not counted does not mean zero. Failed pushes have types of their own
// (cds_senderr) and do not count.
func pushes(series map[string]float64, kind string) float64 {
	sum, any := 0.0, false
	for key, v := range series {
		name, labels, ok := parseSeries(key)
		if !ok || name != metricPushes || strings.Contains(labels["type"], "err") || kind != "" && labels["type"] != kind {
			continue
		}
		sum, any = sum+v, true
	}
	if !any {
		return math.NaN()
	}
	return sum
}

// pushedBytes sums the resources that istiod pushed, in bytes, by its own count. It returns NaN if
// istiod has no such series.
func pushedBytes(series map[string]float64) float64 {
	sum, any := 0.0, false
	for key, v := range series {
		if name, _, ok := parseSeries(key); ok && name == metricPushedBytes {
			sum, any = sum+v, true
		}
	}
	if !any {
		return math.NaN()
	}
	return sum
}

// bucket is a histogram's bucket: the number of values up to upto.
type bucket struct{ upto, count float64 }

// histogram sums the buckets of a histogram over all of its series, like sum by (le).
func histogram(series map[string]float64, metric string) []bucket {
	by := map[float64]float64{}
	for key, v := range series {
		name, labels, ok := parseSeries(key)
		if !ok || name != metric+"_bucket" {
			continue
		}
		upto, err := strconv.ParseFloat(labels["le"], 64) // including "+Inf"
		if err != nil || math.IsNaN(upto) {
			continue
		}
		by[upto] += v
	}
	out := make([]bucket, 0, len(by))
	for upto, n := range by {
		out = append(out, bucket{upto, n})
	}
	sort.Slice(out, func(i, j int) bool { return out[i].upto < out[j].upto })
	return out
}

// histogramQuantile implements PromQL's histogram_quantile: linear interpolation within the
// quantile's bucket, from 0 in the first one, and the upper bound of the last finite bucket for
// anything beyond. first means that the quantile fell into the first bucket, where the value is
// mere interpolation. The result is NaN without values or without a bucket to +Inf.
func histogramQuantile(q float64, buckets []bucket) (value float64, first bool) {
	n := len(buckets)
	if n < 2 || !math.IsInf(buckets[n-1].upto, 1) || buckets[n-1].count <= 0 {
		return math.NaN(), false
	}
	rank := q * buckets[n-1].count
	i := sort.Search(n-1, func(i int) bool { return buckets[i].count >= rank })
	switch {
	case i == n-1:
		return buckets[n-2].upto, false
	case i == 0 && buckets[0].upto <= 0:
		return buckets[0].upto, true
	}
	start, below := 0.0, 0.0
	if i > 0 {
		start, below = buckets[i-1].upto, buckets[i-1].count
	}
	inside := buckets[i].count - below
	if inside <= 0 {
		return start, i == 0
	}
	return start + (buckets[i].upto-start)*(rank-below)/inside, i == 0
}
