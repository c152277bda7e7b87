package signals

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Histogram is a native histogram, or the increase of one.
type Histogram struct {
	Count, Sum float64
	// Buckets are ascending; empty ones may be omitted. The first bucket of a
	// histogram with custom buckets starts at minus infinity, and its last one ends
	// at infinity.
	Buckets []Bucket
}

// Bucket counts the observations between two bounds.
type Bucket struct{ Low, High, Count float64 }

// forms has an expression over a histogram for both ways in which Prometheus stores
// one: as the series NAME_bucket, NAME_sum and NAME_count, or as one native histogram
// NAME, as with convert_classic_histograms_to_nhcb and scrape_native_histograms. Both
// yield the same series.
type forms struct {
	metric          string // NAME
	classic, native string
}

// either returns an expression that works for both. If a server has both, as with
// always_scrape_classic_histograms, the classic form takes precedence.
func (f *forms) either() string { return f.classic + " or " + f.native }

func (f *forms) expand(o Options) *forms {
	return &forms{f.metric, o.expand(f.classic), o.expand(f.native)}
}

// quantileIn returns a quantile of the selected series over a window. It uses no
// functions that servers without native histograms lack.
func quantileIn(q float64, metric, selector, window string) *forms {
	return &forms{metric, fmt.Sprintf("histogram_quantile(%g, sum by (le) (rate(%s_bucket%s[%s])))", q, metric, selector, window),
		fmt.Sprintf("histogram_quantile(%g, sum(rate(%s%s[%s])))", q, metric, selector, window)}
}

// Quantile returns a PromQL expression for a quantile of a histogram, whichever way
// Prometheus stores it. A selector is in braces, or "".
func Quantile(q float64, metric, selector, window string) string {
	return quantileIn(q, metric, selector, window).either()
}

// meanOf returns the mean over the window.
func meanOf(metric string) *forms {
	return &forms{metric, fmt.Sprintf("sum(rate(%[1]s_sum{$i}[$w])) / sum(rate(%[1]s_count{$i}[$w]))", metric),
		fmt.Sprintf("sum(histogram_sum(rate(%[1]s{$i}[$w]))) / sum(histogram_count(rate(%[1]s{$i}[$w])))", metric)}
}

// sumsOf returns the growth rate of the sum of observations, by a label.
func sumsOf(metric, by string) *forms {
	return &forms{metric, fmt.Sprintf("sum by (%s) (rate(%s_sum{$i}[$w]))", by, metric),
		fmt.Sprintf("sum by (%s) (histogram_sum(rate(%s{$i}[$w])))", by, metric)}
}

// histogramOf returns the name of a series's histogram; other names are returned
// unchanged.
func histogramOf(series string) string {
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if name, ok := strings.CutSuffix(series, suffix); ok {
			return name
		}
	}
	return series
}

// namesOf returns the names to request from a source: those of series, and the native
// name of histograms.
func namesOf(table []Signal) []string {
	names := metricsOf(table)
	seen := map[string]bool{}
	for _, s := range table {
		if s.forms != nil && !seen[s.forms.metric] {
			seen[s.forms.metric] = true
			names = append(names, s.forms.metric)
		}
	}
	return names
}

// choose returns the expression that matches what a source has, or the metrics that
// it lacks. Native histogram functions are used only with servers that have native
// histograms; others may not know them.
func (s *Signal) choose(has map[string]bool) (expr string, missing []string) {
	for _, name := range s.Metrics {
		if !has[name] {
			missing = append(missing, name)
		}
	}
	switch {
	case s.forms == nil:
		return s.Expr, missing
	case !has[s.forms.metric]:
		return s.forms.classic, missing
	case missing != nil:
		return s.forms.native, nil
	}
	return s.Expr, nil // one of them may have just ended
}

// UnmarshalJSON parses a histogram from Prometheus's HTTP API
// (https://prometheus.io/docs/prometheus/latest/querying/api/#native-histograms):
// buckets are [which bounds are inclusive, "low", "high", "count"].
func (h *Histogram) UnmarshalJSON(text []byte) error {
	var read struct {
		Count, Sum string
		Buckets    [][]json.RawMessage
	}
	if err := json.Unmarshal(text, &read); err != nil {
		return err
	}
	var err error
	if h.Count, err = number(read.Count); err != nil {
		return fmt.Errorf("count: %w", err)
	}
	if h.Sum, err = number(read.Sum); err != nil {
		return fmt.Errorf("sum: %w", err)
	}
	h.Buckets = nil
	for _, parts := range read.Buckets {
		if len(parts) != 4 {
			return fmt.Errorf("a bucket of %d parts, not 4", len(parts))
		}
		var values [3]float64
		for i, part := range parts[1:] {
			var spelled string
			if err := json.Unmarshal(part, &spelled); err != nil {
				return err
			}
			if values[i], err = number(spelled); err != nil {
				return err
			}
		}
		b := Bucket{values[0], values[1], values[2]}
		if n := len(h.Buckets); !(b.Low <= b.High) || n > 0 && b.Low < h.Buckets[n-1].High {
			return errors.New("buckets that do not rise")
		}
		h.Buckets = append(h.Buckets, b)
	}
	return nil
}

// number parses a value in the API's format.
func number(text string) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, fmt.Errorf("a value that is no number: %q", text)
	}
	return v, nil
}

// first returns the first bucket's upper bound, and the share of observations in it.
// If that bucket is omitted, no observations lie below the first one present.
func (h *Histogram) first() (bound, share float64) {
	if len(h.Buckets) == 0 || h.Count <= 0 {
		return math.Inf(1), 0
	}
	if b := h.Buckets[0]; b.Low <= 0 {
		return b.High, b.Count / h.Count
	}
	return h.Buckets[0].Low, 0
}
