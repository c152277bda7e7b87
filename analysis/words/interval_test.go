package words

import (
	"slices"
	"testing"
)

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
		{8.281e9, 8.2262e9, 8.3352e9, 0, "bytes", "8,281 MB (95% interval 8,226 to 8,335)", "8,226 and 8,335 MB"},
		{500, -1200, 2200, 5000, "bytes", "0.5 kB (95% interval -1.2 to 2.2)", "-1.2 and 2.2 kB"},
		{-0.00004, -0.5, 0.5, 9, "cores", "0.00 cores (95% interval -0.50 to 0.50)", "-0.50 and 0.50 cores"},
		{1234567, 1204567, 1264567, 0, "USD/month", "1,235,000 USD per month (95% interval 1,205,000 to 1,265,000)", "1,205,000 and 1,265,000 USD per month"},
		{1500e6, 27e6, 2973e6, 12e9, "bytes", "1.5 GB (95% interval 0.03 to 3.0)", "0.03 and 3.0 GB"},
		{1475e6, -23e6, 2973e6, 5e9, "bytes", "1,500 MB (95% interval -20 to 3,000)", "-20 and 3,000 MB"},
		{0.6, 0.0004, 1.2, 2, "cores", "0.60 cores (95% interval 0.0004 to 1.20)", "0.0004 and 1.20 cores"},
		{-0.6, -1.2, -0.0004, 2, "cores", "-0.60 cores (95% interval -1.20 to -0.0004)", "-1.20 and -0.0004 cores"},
		{1500e6, 0, 3000e6, 5e9, "bytes", "1,500 MB (95% interval 0 to 3,000)", "0 and 3,000 MB"},
		{3, 3, 3, 0, "cores", "3.00 cores (95% interval 3.00 to 3.00)", "3.00 and 3.00 cores"},
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
