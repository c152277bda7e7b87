package findings

import (
	"math"
	"testing"

	"github.com/meshtrial/meshtrial/record"
)

// Series of a metric are not confused with those whose names only begin alike, in any spelling.
func TestPushesBySeries(t *testing.T) {
	series := map[string]float64{
		`pilot_xds_pushes{type="cds"}`: 3, `pilot_xds_pushes{type="cds",pod="x\"}{"}`: 4, `pilot_xds_pushes{pod="a",type="eds",}`: 5,
		`pilot_xds_pushes{type="cds_senderr"}`: 100, `pilot_xds_pushes_other{type="cds"}`: 100, `pilot_xds_pushes{type="cds"`: 100,
		"pilot_xds_config_size_bytes_sum": 10, `pilot_xds_config_size_bytes_sum{type="cds"}`: 20,
	}
	for kind, want := range map[string]float64{"": 12, "cds": 7, "eds": 5, "lds": math.NaN()} {
		if got := pushes(series, kind); got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Errorf("pushes of %q: %g, want %g", kind, got, want)
		}
	}
	if got := pushedBytes(series); got != 30 {
		t.Errorf("%g bytes", got)
	}
	if got := pushedBytes(nil); !math.IsNaN(got) {
		t.Errorf("%g bytes of none", got)
	}
}

// The percentile is over all series of the histogram, and is given with its bucket.
func TestReportedP99(t *testing.T) {
	of := func(counts ...float64) map[string]float64 {
		out := map[string]float64{"pilot_proxy_convergence_time_sum": 7}
		for i, le := range []string{"0.1", "0.5", "+Inf"}[:len(counts)] {
			out[`pilot_proxy_convergence_time_bucket{le="`+le+`"}`] = counts[i]
		}
		return out
	}
	two := of(5, 10, 10)
	two[`pilot_proxy_convergence_time_bucket{pod="b",le="0.5"}`] = 90
	two[`pilot_proxy_convergence_time_bucket{pod="b",le="+Inf"}`] = 90
	for _, c := range []struct {
		series          map[string]float64
		p99, from, upto float64
	}{
		{of(10, 10, 10), 0.099, 0, 0.1},
		{of(0, 10, 10), 0.1 + 0.4*0.99, 0.1, 0.5},
		{of(5, 8, 10), 0.5, 0.1, 0.5}, // beyond the last finite bucket
		{two, 0.1 + 0.4*94/95, 0.1, 0.5},
	} {
		p99, from, upto := reportedP99(&record.Trial{Control: &record.Control{Istiod: c.series}})
		if math.Abs(p99-c.p99) > 1e-9 || from != c.from || upto != c.upto {
			t.Errorf("%v: %g in %g to %g, want %g in %g to %g", c.series, p99, from, upto, c.p99, c.from, c.upto)
		}
	}
	for _, none := range []map[string]float64{nil, of(0, 0, 0), of(3, 3)} {
		if p99, _, _ := reportedP99(&record.Trial{Control: &record.Control{Istiod: none}}); !math.IsNaN(p99) {
			t.Errorf("%v has a percentile %g", none, p99)
		}
	}
}
