package signals

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Histogram is a native histogram, or the rise of one.
type Histogram struct {
	Count, Sum float64
	// Buckets rise; empty ones may be left out. The first one of a histogram with
	// custom buckets begins at minus infinity, its last one ends at infinity.
	Buckets []Bucket
}

// Bucket is how many observations lie between two bounds.
type Bucket struct{ Low, High, Count float64 }

// forms are an expression over a histogram for the two ways in which Prometheus
// stores one: as the series NAME_bucket, NAME_sum and NAME_count, or as one native
// histogram NAME, as it does with convert_classic_histograms_to_nhcb and with
// scrape_native_histograms. Both give the same series.
type forms struct {
	metric          string // NAME
	classic, native string
}

// either is an expression that holds for both. Where a server has both, as with
// always_scrape_classic_histograms, the classic form counts.
func (f *forms) either() string { return f.classic + " or " + f.native }

func (f *forms) expand(o Options) *forms {
	return &forms{f.metric, o.expand(f.classic), o.expand(f.native)}
}

// quantileIn is a quantile of the series with a selector, over a window. It needs no
// function that servers without native histograms lack.
func quantileIn(q float64, metric, selector, window string) *forms {
	return &forms{metric, fmt.Sprintf("histogram_quantile(%g, sum by (le) (rate(%s_bucket%s[%s])))", q, metric, selector, window),
		fmt.Sprintf("histogram_quantile(%g, sum(rate(%s%s[%s])))", q, metric, selector, window)}
}

// Quantile is an expression in PromQL for a quantile of a histogram, in whichever way
// Prometheus stores it. A selector is in braces, or "".
func Quantile(q float64, metric, selector, window string) string {
	return quantileIn(q, metric, selector, window).either()
}

// meanOf is the mean over the window.
func meanOf(metric string) *forms {
	return &forms{metric, fmt.Sprintf("sum(rate(%[1]s_sum{$i}[$w])) / sum(rate(%[1]s_count{$i}[$w]))", metric),
		fmt.Sprintf("sum(histogram_sum(rate(%[1]s{$i}[$w]))) / sum(histogram_count(rate(%[1]s{$i}[$w])))", metric)}
}

// sumsOf is how fast the sum of observations grows, by a label.
func sumsOf(metric, by string) *forms {
	return &forms{metric, fmt.Sprintf("sum by (%s) (rate(%s_sum{$i}[$w]))", by, metric),
		fmt.Sprintf("sum by (%s) (histogram_sum(rate(%s{$i}[$w])))", by, metric)}
}

// histogramOf is the name of the histogram that a series is of; other names stay.
func histogramOf(series string) string {
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if name, ok := strings.CutSuffix(series, suffix); ok {
			return name
		}
	}
	return series
}

// namesOf are the names to ask a source for: those of series, and for histograms the
// name that a native one has.
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

// choose returns the expression for what a source has, or the metrics that it lacks.
// Functions of native histograms go only to servers that have such: others may not
// know them.
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
	return s.Expr, nil // one of them may have ended a moment ago
}

// UnmarshalJSON reads a histogram of Prometheus' HTTP API
// (https://prometheus.io/docs/prometheus/latest/querying/api/#native-histograms):
// buckets are [which bounds belong to it, "low", "high", "count"].
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

// number reads a value as the API spells it.
func number(text string) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, fmt.Errorf("a value that is no number: %q", text)
	}
	return v, nil
}

// first is the first bucket's upper bound, and the share of observations in it. Where
// it is left out, none lie below the first one that is not.
func (h *Histogram) first() (bound, share float64) {
	if len(h.Buckets) == 0 || h.Count <= 0 {
		return math.Inf(1), 0
	}
	if b := h.Buckets[0]; b.Low <= 0 {
		return b.High, b.Count / h.Count
	}
	return h.Buckets[0].Low, 0
}
