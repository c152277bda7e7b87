package words

import "testing"

func TestQuantities(t *testing.T) {
	for _, c := range []struct {
		v    float64
		unit string
		want string
	}{
		{5751.4, "USD/month", "5,750 USD a month"},
		{-1840, "USD/month", "-1,840 USD a month"},
		{-184.4, "EUR/month", "-184 EUR a month"},
		{41.66, "USD/month", "42 USD a month"},
		{1234567, "USD/month", "1,230,000 USD a month"},
		{65, "us/request", "65 µs a request"},
		{250, "us", "0.25 ms"},
		{0.056, "cores", "56 mCPU"},
		{0, "USD/month", "0 USD a month"},
	} {
		if got := Quantity(c.v, c.unit); got != c.want {
			t.Errorf("%g %s: %q, want %q", c.v, c.unit, got, c.want)
		}
	}
}
