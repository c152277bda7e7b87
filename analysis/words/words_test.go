package words

import "testing"

func TestQuantities(t *testing.T) {
	for _, c := range []struct {
		v    float64
		unit string
		want string
	}{
		{5751.4, "USD/month", "5,750 USD per month"},
		{-1840, "USD/month", "-1,840 USD per month"},
		{-184.4, "EUR/month", "-184 EUR per month"},
		{41.66, "USD/month", "42 USD per month"},
		{1234567, "USD/month", "1,230,000 USD per month"},
		{65, "us/request", "65 µs per request"},
		{250, "us", "0.25 ms"},
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
