package words

import (
	"slices"
	"testing"
)

func TestQuantities(t *testing.T) {
	for _, c := range []struct {
		v    float64
		unit string
		want string
	}{
		{5751.4, "USD/month", "5,750 USD per month"},
		{-1840, "USD/month", "-1,840 USD per month"},
		{41.66, "USD/month", "42 USD per month"},
		{1234567, "USD/month", "1,230,000 USD per month"},
		{65, "us/request", "65 µs per request"},
		{0.056, "cores", "56 mCPU"},
		{0, "USD/month", "0 USD per month"},
	} {
		if got := Quantity(c.v, c.unit); got != c.want {
			t.Errorf("%g %s: %q, want %q", c.v, c.unit, got, c.want)
		}
	}
}

// Thousands are separated, and one is not plural.
func TestPlural(t *testing.T) {
	for n, want := range map[int]string{0: "0 blocks", 1: "1 block", 2: "2 blocks", 999: "999 blocks", 1200: "1,200 blocks", 1234567: "1,234,567 blocks"} {
		if got := Plural(n, "block"); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
		if got := Plural(int64(n), "block"); got != want {
			t.Errorf("%d of 64 bits: %q, want %q", n, got, want)
		}
	}
}

// Only requests fail: an istiod that was not ready in time does not lie among
// failed ones.
func TestUnreached(t *testing.T) {
	for name, want := range map[string]string{
		"latency_p99": "it lies among failed requests", "istiod_ready_time": "it was not reached in every trial",
	} {
		if got := Unreached(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// An estimate and its interval have one unit, which suits their context, and as many
// decimals as half the interval deserves.
func TestIntervals(t *testing.T) {
	for _, c := range []struct {
		v, low, high, largest float64
		unit, interval, ends  string
	}{
		{0.903, 0.537, 1.269, 2.6, "cores", "0.90 cores (95% interval 0.54 to 1.27)", "0.54 and 1.27 cores"},
		{0.5, 0.488, 0.512, 0.8, "cores", "500 mCPU (95% interval 488 to 512)", "488 and 512 mCPU"},
		{8.281e9, 8.2262e9, 8.3352e9, 12e9, "bytes", "8.281 GB (95% interval 8.226 to 8.335)", "8.226 and 8.335 GB"},
		{500, -1200, 2200, 5000, "bytes", "0.5 kB (95% interval -1.2 to 2.2)", "-1.2 and 2.2 kB"},
		{-0.00004, -0.5, 0.5, 9, "cores", "0.00 cores (95% interval -0.50 to 0.50)", "-0.50 and 0.50 cores"},
		{1234567, 1204567, 1264567, 0, "USD/month", "1,235,000 USD per month (95% interval 1,205,000 to 1,265,000)", "1,205,000 and 1,265,000 USD per month"},
		{1500e6, 27e6, 2973e6, 12e9, "bytes", "1.5 GB (95% interval 0.03 to 3.0)", "0.03 and 3.0 GB"},
		{1475e6, -23e6, 2973e6, 5e9, "bytes", "1,500 MB (95% interval -20 to 3,000)", "-20 and 3,000 MB"},
		{0.6, 0.0004, 1.2, 2, "cores", "0.60 cores (95% interval 0.0004 to 1.20)", "0.0004 and 1.20 cores"},
		{1500e6, 0, 3000e6, 5e9, "bytes", "1,500 MB (95% interval 0 to 3,000)", "0 and 3,000 MB"},
	} {
		if got := Interval(c.v, c.low, c.high, c.largest, c.unit); got != c.interval {
			t.Errorf("%q, want %q", got, c.interval)
		}
		if got := Between(c.low, c.high, c.largest, c.unit); got != c.ends {
			t.Errorf("%q, want %q", got, c.ends)
		}
	}
}

func TestLines(t *testing.T) {
	for text, want := range map[string][]string{
		"":                   {""},
		"a bc def":           {"a bc", "def"},
		"äbcd  éf\ng":        {"äbcd", "éf g"},
		"longer than others": {"longer", "than", "others"},
	} {
		if got := Lines(text, 4); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
