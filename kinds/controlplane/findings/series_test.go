package findings

import (
	"math"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

func TestParseSeries(t *testing.T) {
	for _, c := range []struct {
		key, name string
		labels    map[string]string
		ok        bool
	}{
		{"up", "up", map[string]string{}, true},
		{"a{}", "a", map[string]string{}, true},
		{`a{b="c"}`, "a", map[string]string{"b": "c"}, true},
		{`a{b="c",d="e",}`, "a", map[string]string{"b": "c", "d": "e"}, true},
		{`a{b="x\"y\\z\n"}`, "a", map[string]string{"b": "x\"y\\z\n"}, true},
		{`a{b="}"}`, "a", map[string]string{"b": "}"}, true},
		{"", "", nil, false}, {"{", "", nil, false}, {"a{b", "", nil, false}, {`a{b="c`, "", nil, false}, {`a{b="c"`, "", nil, false}, {`a{="c"}`, "", nil, false},
	} {
		name, labels, ok := parseSeries(c.key)
		if ok != c.ok || ok && (name != c.name || len(labels) != len(c.labels)) {
			t.Errorf("%q: %q %v %v", c.key, name, labels, ok)
		}
		for k, v := range c.labels {
			if labels[k] != v {
				t.Errorf("%q: %s is %q, want %q", c.key, k, labels[k], v)
			}
		}
	}
}

func FuzzParseSeries(f *testing.F) {
	for _, s := range []string{"a", `a{b="c"}`, `a{b="c`, `a{b="\`, "{}", `a{b="c",}x`, `a{ b = "c" }`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, key string) {
		name, labels, ok := parseSeries(key)
		if ok && (name == "" || labels == nil) {
			t.Fatalf("%q is read as %q %v", key, name, labels)
		}
	})
}

// The results equal those of Prometheus' histogram_quantile.
func TestHistogramQuantile(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []struct {
		q       float64
		buckets []bucket
		want    float64
		first   bool
	}{
		{0.5, []bucket{{0.1, 10}, {0.5, 10}, {inf, 10}}, 0.05, true},
		{0.99, []bucket{{0.1, 10}, {0.5, 10}, {inf, 10}}, 0.099, true},
		{0.75, []bucket{{0.1, 5}, {0.5, 10}, {inf, 10}}, 0.3, false},
		{0.99, []bucket{{0.1, 5}, {0.5, 8}, {inf, 10}}, 0.5, false},
		{0.5, []bucket{{0.1, 0}, {0.5, 4}, {inf, 4}}, 0.3, false},
	} {
		if got, first := histogramQuantile(c.q, c.buckets); math.Abs(got-c.want) > 1e-12 || first != c.first {
			t.Errorf("%g of %v: %g %v, want %g %v", c.q, c.buckets, got, first, c.want, c.first)
		}
	}
	for _, none := range [][]bucket{nil, {{inf, 3}}, {{0.1, 0}, {inf, 0}}, {{0.1, 3}, {0.5, 3}}} {
		if got, _ := histogramQuantile(0.5, none); !math.IsNaN(got) {
			t.Errorf("%v has a quantile %g", none, got)
		}
	}
}

// Quantiles increase with q and stay within the finite buckets.
func TestHistogramQuantileProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		series := map[string]float64{"other{le=\"1\"}": 5, "m_sum": 3}
		sum := 0.0
		for i, n := range rapid.SliceOfN(rapid.IntRange(0, 50), 1, 8).Draw(t, "counts") {
			sum += float64(n)
			series[`m_bucket{le="`+strconv.Itoa(i+1)+`"}`] = sum
			series[`m_bucket{le="`+strconv.Itoa(i+1)+`",pod="b"}`] = sum
		}
		series[`m_bucket{le="+Inf"}`], series[`m_bucket{le="+Inf",pod="b"}`] = sum+1, sum
		buckets := histogram(series, "m")
		last := 0.0
		for q := 0.0; q <= 1; q += 0.05 {
			v, _ := histogramQuantile(q, buckets)
			if math.IsNaN(v) || v < last-1e-9 || v > float64(len(buckets)-1) {
				t.Fatalf("%g of %v: %g after %g", q, buckets, v, last)
			}
			last = v
		}
	})
}
