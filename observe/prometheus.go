package observe

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Metric is one series of a Prometheus text page.
type Metric struct {
	Name   string
	Labels map[string]string
	Type   string // counter, gauge, untyped; histogram and summary are split
	Value  float64
	// AtMS is the sample's own time in Unix milliseconds; 0 if the page has none.
	AtMS int64
}

// ParsePrometheus parses the Prometheus text format. Histograms become NAME_bucket
// with label le, NAME_sum and NAME_count; summaries become NAME with label
// quantile, NAME_sum and NAME_count. The result is sorted by name, then in page
// order.
func ParsePrometheus(page []byte) ([]Metric, error) {
	families, err := parseFamilies(page)
	if err != nil {
		return nil, fmt.Errorf("prometheus page: %w", err)
	}
	var out []Metric
	for _, name := range slices.Sorted(maps.Keys(families)) {
		family := families[name]
		kind := strings.ToLower(family.GetType().String())
		for _, m := range family.Metric {
			labels := make(map[string]string, len(m.Label))
			for _, pair := range m.Label {
				labels[pair.GetName()] = pair.GetValue()
			}
			out = append(out, split(name, kind, labels, m)...)
		}
	}
	return out, nil
}

// parseFamilies recovers from panics of the library's parser on some broken pages
// ("#TYPE A histogram\n{}").
func parseFamilies(page []byte) (families map[string]*dto.MetricFamily, err error) {
	defer func() {
		if broken := recover(); broken != nil {
			families, err = nil, fmt.Errorf("not in the text format: %v", broken)
		}
	}()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(bytes.NewReader(page))
}

func split(name, kind string, labels map[string]string, m *dto.Metric) (out []Metric) {
	add := func(suffix, kind string, labels map[string]string, value float64) {
		out = append(out, Metric{Name: name + suffix, Labels: labels, Type: kind, Value: value, AtMS: m.GetTimestampMs()})
	}
	with := func(label string, value float64) map[string]string {
		out := maps.Clone(labels)
		out[label] = fmt.Sprint(value)
		return out
	}
	totals := func(sum float64, count uint64) {
		add("_sum", "counter", labels, sum)
		add("_count", "counter", labels, float64(count))
	}
	switch {
	case m.Counter != nil:
		add("", kind, labels, m.Counter.GetValue())
	case m.Gauge != nil:
		add("", kind, labels, m.Gauge.GetValue())
	case m.Untyped != nil:
		add("", kind, labels, m.Untyped.GetValue())
	case m.Histogram != nil:
		for _, b := range m.Histogram.Bucket {
			add("_bucket", "counter", with("le", b.GetUpperBound()), float64(b.GetCumulativeCount()))
		}
		totals(m.Histogram.GetSampleSum(), m.Histogram.GetSampleCount())
	case m.Summary != nil:
		for _, q := range m.Summary.Quantile {
			add("", "gauge", with("quantile", q.GetQuantile()), q.GetValue())
		}
		totals(m.Summary.GetSampleSum(), m.Summary.GetSampleCount())
	}
	return out
}

// Sum returns the sum of the series of a name whose labels include all of match.
func Sum(metrics []Metric, name string, match map[string]string) (sum float64, found bool) {
	for _, m := range metrics {
		if m.Name != name {
			continue
		}
		fits := true
		for label, value := range match {
			fits = fits && m.Labels[label] == value
		}
		if fits {
			sum += m.Value
			found = true
		}
	}
	return sum, found
}

// Key formats a series as PromQL does: name{label="value",...}, with sorted
// labels.
func (m Metric) Key() string {
	if len(m.Labels) == 0 {
		return m.Name
	}
	pairs := make([]string, 0, len(m.Labels))
	for label, value := range m.Labels {
		pairs = append(pairs, fmt.Sprintf("%s=%q", label, value))
	}
	sort.Strings(pairs)
	return m.Name + "{" + strings.Join(pairs, ",") + "}"
}
