package signals

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/testing/must"
)

func TestMeasurePushTest(t *testing.T) {
	first, second := fixtures(t)
	rose := rises(t, first, second)
	got, err := MeasurePushTest(context.Background(), twoPages(t, first, second), Options{}, after(0), after(10))
	must.OK(t, err)
	near := func(name string, got, want float64) {
		if math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	if !got.Valid || len(got.Missing) > 0 {
		t.Errorf("%+v", got)
	}
	near("pushes", got.Pushes, rose("pilot_xds_pushes"))
	near("cds pushes", got.PushesByType["cds"], rose(`pilot_xds_pushes{type="cds"}`))
	near("p99", *got.Convergence.P99S, 0.099) // all in the first bucket
	near("share", got.FirstBucketShare, 1)
	near("bucket", got.FirstBucketS, 0.1)
	near("mean", *got.Convergence.MeanS, rose("pilot_proxy_convergence_time_sum")/rose("pilot_proxy_convergence_time_count"))
	near("debounced", got.Debounce.Count, 3)
	near("debounce", *got.Debounce.MeanS, rose("pilot_debounce_time_sum")/3)
	near("bytes", got.ConfigBytes, rose("pilot_xds_config_size_bytes_sum"))
	near("proxies", got.Proxies, 2)
	words := strings.Join(got.LeftOut(), "\n")
	for _, say := range []string{"All 6 observations lie in the histogram's first bucket, which ends at 100 ms", "gathered changes 3 times", "acknowledgement"} {
		if !strings.Contains(words, say) {
			t.Errorf("does not say %q:\n%s", say, words)
		}
	}
}

func TestPushTestWords(t *testing.T) {
	const proxies = "pilot_services 3\npilot_xds 2\n# TYPE pilot_xds_pushes counter\n"
	for _, tt := range []struct {
		name, first, second string
		pushes              float64
		valid               bool
		says                string
	}{
		{"a type appears", proxies, proxies + "pilot_xds_pushes{type=\"eds\"} 4\n" + histogram(MetricLatency, 1, bounds, 4, 4, 4, 4), 4, true, "All 4"},
		{"slow", proxies, proxies + "pilot_xds_pushes{type=\"eds\"} 4\n" + histogram(MetricLatency, 60, bounds, 10, 20, 40, 40), 4, true, "25% of 40 observations"},
		{"below", proxies, proxies + "pilot_xds_pushes{type=\"eds\"} 4\n" + histogram(MetricLatency, 60, bounds, 999, 1000, 1000, 1000), 4, true, "it is below 100 ms, and not known better"},
		{"no debounce", proxies, proxies + "pilot_xds_pushes{type=\"eds\"} 4\n" + histogram(MetricLatency, 1, bounds, 4, 4, 4, 4), 4, true, "has no pilot_debounce_time"},
		{"idle", proxies + "pilot_xds_pushes 3\n", proxies + "pilot_xds_pushes 3\n", 0, false, "discoverySelectors"},
		{"nobody", "pilot_services 3\n", "pilot_services 3\n", 0, false, "no proxy is connected"},
		{"restart", proxies + "pilot_xds_pushes 30\nprocess_start_time_seconds 1\n", proxies + "pilot_xds_pushes 2\nprocess_start_time_seconds 9\n", -28, false, "istiod-1 started during the test"},
		{"another program", "x 1\n", "x 1\n", 0, false, "no metrics of an istiod"},
		{"unobserved", proxies, proxies + "pilot_xds_pushes{type=\"eds\"} 4\n", 4, false, "observed nothing"},
	} {
		got, err := MeasurePushTest(context.Background(), twoPages(t, tt.first, tt.second), Options{}, after(0), after(10))
		must.OK(t, err)
		words := strings.Join(append(got.LeftOut(), got.Warnings...), "\n")
		if got.Pushes != tt.pushes || got.Valid != tt.valid || !strings.Contains(words, tt.says) {
			t.Errorf("%s: %+v\n%s", tt.name, got, words)
		}
		if got.Convergence.Count == 0 && got.Convergence.P99S != nil {
			t.Errorf("%s: a p99 of nothing", tt.name)
		}
	}
}

// Two replicas count together, and a replaced one is reported.
func TestPushTestReplicas(t *testing.T) {
	r := newRecorder(t, t.TempDir())
	page := func(pushes, started int) []byte {
		return fmt.Appendf(nil, "pilot_services 3\npilot_xds 2\n# TYPE pilot_xds_pushes counter\npilot_xds_pushes{type=\"cds\"} %d\nprocess_start_time_seconds %d\n%s",
			pushes, started, histogram(MetricLatency, float64(pushes), bounds, pushes, pushes, pushes, pushes))
	}
	a, b, c := map[string]string{"pod": "istiod-a"}, map[string]string{"pod": "istiod-b"}, map[string]string{"pod": "istiod-c"}
	must.OK(t, r.AppendPage(after(0), page(10, 1), a))
	must.OK(t, r.AppendPage(after(0), page(20, 2), b))
	must.OK(t, r.AppendPage(after(10), page(15, 1), a))
	must.OK(t, r.AppendPage(after(10), page(40, 2), b))
	got, err := MeasurePushTest(context.Background(), r.Source(), Options{}, after(0), after(10))
	must.OK(t, err)
	if got.Pushes != 25 || !got.Valid || got.Convergence.Count != 25 || got.Proxies != 4 {
		t.Errorf("%+v", got)
	}
	must.OK(t, r.Gone(after(15), b))
	must.OK(t, r.AppendPage(after(20), page(1, 18), c))
	must.OK(t, r.AppendPage(after(20), page(17, 1), a))
	got, err = MeasurePushTest(context.Background(), r.Source(), Options{}, after(10), after(20))
	must.OK(t, err)
	if got.Valid || !strings.Contains(strings.Join(got.Warnings, "\n"), "istiod-c started during the test") {
		t.Errorf("%+v", got)
	}
}
