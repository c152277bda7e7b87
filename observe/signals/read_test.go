package signals

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/testing/must"
)

// histogram formats a metrics page's histogram from cumulative counts.
func histogram(name string, sum float64, bounds []string, counts ...int) string {
	text := "# TYPE " + name + " histogram\n"
	for i, le := range bounds {
		text += fmt.Sprintf("%s_bucket{le=%q} %d\n", name, le, counts[i])
	}
	return text + fmt.Sprintf("%s_sum %g\n%s_count %d\n", name, sum, name, counts[len(counts)-1])
}

var bounds = []string{"0.1", "1", "3", "+Inf"}

// istiodLabels are the labels of a scraped istiod.
var istiodLabels = map[string]string{"app": "istiod", "pod": "istiod-1", "instance": "10.0.0.1:15014"}

// twoPages records a page at 0 s and one at 10 s.
func twoPages(t *testing.T, first, second string) *Series {
	t.Helper()
	r := newRecorder(t, t.TempDir())
	must.OK(t, r.AppendPage(after(0), []byte(first), istiodLabels))
	must.OK(t, r.AppendPage(after(10), []byte(second), istiodLabels))
	return r.Source()
}

// tenSeconds looks back on both pages.
var tenSeconds = Options{Window: 10*time.Second + time.Millisecond}

func TestRead(t *testing.T) {
	s := twoPages(t,
		histogram(MetricLatency, 5, bounds, 5, 5, 5, 5)+
			histogram("pilot_debounce_time", 1, bounds, 10, 10, 10, 10)+
			histogram("pilot_proxy_queue_time", 0, bounds, 0, 0, 0, 0)+
			histogram("pilot_xds_push_time", 0, bounds, 0, 0, 0, 0)+`
# TYPE pilot_inbound_updates counter
pilot_inbound_updates{type="svc"} 10
pilot_inbound_updates{type="eds"} 5
# TYPE pilot_services gauge
pilot_services 17
# TYPE pilot_xds_pushes counter
pilot_xds_pushes{type="cds"} 4
# TYPE process_cpu_seconds_total counter
process_cpu_seconds_total 100
# TYPE go_sched_gomaxprocs_threads gauge
go_sched_gomaxprocs_threads 2
`,
		histogram(MetricLatency, 85, bounds, 55, 95, 105, 105)+
			histogram("pilot_debounce_time", 1, bounds, 10, 10, 10, 10)+
			histogram("pilot_proxy_queue_time", 0.02, bounds, 20, 20, 20, 20)+
			histogram("pilot_xds_push_time", 400, bounds, 0, 0, 0, 10)+`
# TYPE pilot_inbound_updates counter
pilot_inbound_updates{type="svc"} 30
pilot_inbound_updates{type="eds"} 5
# TYPE pilot_services gauge
pilot_services 19
# TYPE pilot_xds_pushes counter
pilot_xds_pushes{type="cds"} 14
pilot_xds_pushes{type="cds_senderr"} 2
# TYPE process_cpu_seconds_total counter
process_cpu_seconds_total 118
# TYPE go_sched_gomaxprocs_threads gauge
go_sched_gomaxprocs_threads 2
# TYPE pilot_total_xds_rejects counter
pilot_total_xds_rejects{type="cds"} 3
`)
	r, err := Read(context.Background(), s, tenSeconds, after(10))
	must.OK(t, err)

	// Of 100 observations 50 are in (0, 0.1], 40 in (0.1, 1], and 10 in (1, 3].
	for _, tt := range []struct {
		key              string
		value, low, high float64
		bucket           string
	}{
		{"convergence_istiod_mean", 0.8, 0, 0, ""},
		{"convergence_istiod_p50", 0.1, 0, 0.1, WithinFirst}, // the 50th of 50 in the first bucket: its end
		{"convergence_istiod_p90", 1, 0.1, 1, ""},
		{"convergence_istiod_p99", 2.8, 1, 3, ""}, // 9 tenths of the way from 1 to 3
		{"convergence_istiod_p999", 2.98, 1, 3, ""},
		{"queue_mean", 0.001, 0, 0, ""},
		{"queue_p99", 0.099, 0, 0.1, WithinFirst}, // what the first bucket always yields
		{"push_p50", 3, 3, 0, BeyondLast},         // 40 s each: beyond all bounds
		{"inbound_updates", 2, 0, 0, ""},
		{"services", 19, 0, 0, ""},
		{"xds_pushes", 1.2, 0, 0, ""},
		{"send_errors", 0.2, 0, 0, ""}, // appeared with its first counts
		{"cpu_process", 0.9, 0, 0, ""},
		{"cpu_process_cores", 1.8, 0, 0, ""},
		{"rejects", 3, 0, 0, ""},
	} {
		v, ok := r.Find(tt.key)
		if !ok || v.Status != StatusOK || v.Value == nil {
			t.Errorf("%s: %+v", tt.key, v)
			continue
		}
		if math.Abs(*v.Value-tt.value) > 1e-4 || v.Bucket != tt.bucket || v.LowS != tt.low || v.HighS != tt.high {
			t.Errorf("%s is %v in %q %v to %v, want %+v", tt.key, *v.Value, v.Bucket, v.LowS, v.HighS, tt)
		}
	}
	for _, key := range []string{"debounce_p50", "debounce_p99", "debounce_mean"} {
		if v, _ := r.Find(key); v.Status != StatusNoData || v.Value != nil {
			t.Errorf("%s, of which nothing was observed in the window: %+v", key, v)
		}
	}
	for key, metric := range map[string]string{"convergence_true_p99": MetricConvergence + "_bucket", "write_timeouts": "pilot_xds_write_timeout",
		"xds_proxies": "pilot_xds", "network_bytes": "container_network_transmit_bytes_total"} {
		v, _ := r.Find(key)
		if v.Status != StatusMissing || v.Value != nil || !slices.Equal(v.Missing, []string{metric}) || !slices.Contains(r.Missing, metric) {
			t.Errorf("%s: %+v", key, v)
		}
	}
	if v, _ := r.Find("cpu_process"); !v.Saturated {
		t.Error("90% is not saturated")
	}
	if v, _ := r.Find("inbound_updates"); len(v.Parts) != 2 || v.Parts[0] != (Part{"eds", 0}) || math.Abs(v.Parts[1].Value-2) > 1e-9 {
		t.Errorf("by type: %v", v.Parts)
	}

	for key, want := range map[string]string{"convergence_istiod_mean": "800 ms", "convergence_istiod_p50": "<100 ms", "convergence_istiod_p99": "1 s to 3 s",
		"debounce_mean": "no data", "push_p99": ">3 s", "cpu_process": "90%  SATURATED", "services": "19", "write_timeouts": "missing: pilot_xds_write_timeout"} {
		if v, _ := r.Find(key); v.Describe() != want {
			t.Errorf("%s is %q, not %q", key, v.Describe(), want)
		}
	}
}

// With an empty source everything is missing and nothing is zero.
func TestReadNothing(t *testing.T) {
	r, err := Read(context.Background(), newRecorder(t, t.TempDir()).Source(), Options{}, after(0))
	must.OK(t, err)
	for _, v := range r.Signals {
		if v.Status != StatusMissing || v.Value != nil || len(v.Missing) == 0 {
			t.Errorf("%+v", v)
		}
	}
	if len(r.Missing) != len(metricsOf(Table(Options{}))) {
		t.Errorf("missing: %v", r.Missing)
	}
}

// CPU is relative to the limit if there is one, otherwise to the machine.
func TestSaturationOfContainers(t *testing.T) {
	r := newRecorder(t, t.TempDir())
	kubelet := func(limited bool, cpu float64) []byte {
		page := fmt.Sprintf("# TYPE container_cpu_usage_seconds_total counter\n"+
			"container_cpu_usage_seconds_total{container=\"discovery\",namespace=\"istio-system\",pod=\"istiod-1\"} %g\n"+
			"container_cpu_usage_seconds_total{container=\"other\",pod=\"x\"} %g\n# TYPE machine_cpu_cores gauge\nmachine_cpu_cores{boot_id=\"b\"} 4\n", cpu, 100*cpu)
		if limited {
			page += "container_spec_cpu_quota{container=\"discovery\",pod=\"istiod-1\"} 50000\ncontainer_spec_cpu_period{container=\"discovery\",pod=\"istiod-1\"} 100000\n"
		}
		return []byte(page)
	}
	a, b := map[string]string{"instance": "node-a"}, map[string]string{"instance": "node-b"}
	must.OK(t, r.AppendPage(after(0), kubelet(false, 10), a))
	must.OK(t, r.AppendPage(after(0), kubelet(true, 10), b))
	must.OK(t, r.AppendPage(after(10), kubelet(false, 14), a))
	must.OK(t, r.AppendPage(after(10), kubelet(true, 14), b))
	reading, err := Read(context.Background(), r.Source(), tenSeconds, after(10))
	must.OK(t, err)
	v, _ := reading.Find("cpu_container")
	// 0.4 cores of 4, and 0.4 cores of half a core: the busiest counts.
	if v.Status != StatusOK || math.Abs(*v.Value-0.8) > 1e-9 || len(v.Parts) != 2 || v.Saturated {
		t.Errorf("%+v", v)
	}
	low := min(v.Parts[0].Value, v.Parts[1].Value)
	if math.Abs(low-0.1) > 1e-9 {
		t.Errorf("without a limit: %v", low)
	}
}

// rises computes by hand the increase of each counter between two pages of a
// real istiod.
func rises(t *testing.T, first, second string) func(prefix string) float64 {
	t.Helper()
	values := func(page string) map[string]float64 {
		out := map[string]float64{}
		for line := range strings.Lines(page) {
			if i := strings.LastIndexByte(strings.TrimSpace(line), ' '); i > 0 && line[0] != '#' {
				v, err := strconv.ParseFloat(strings.TrimSpace(line)[i+1:], 64)
				must.OK(t, err)
				out[line[:i]] = v
			}
		}
		return out
	}
	before, now := values(first), values(second)
	return func(prefix string) (sum float64) {
		found := false
		for name, v := range now {
			if name == prefix || strings.HasPrefix(name, prefix+"{") {
				sum, found = sum+v-before[name], true
			}
		}
		if !found {
			t.Fatalf("the fixture has no %s", prefix)
		}
		return sum
	}
}

func fixtures(t *testing.T) (first, second string) {
	t.Helper()
	for name, page := range map[string]*string{"before": &first, "after": &second} {
		data, err := os.ReadFile("testdata/istiod-" + name + ".txt")
		must.OK(t, err)
		*page = string(data)
	}
	return first, second
}

// Two pages of a real istiod, between which three Services were created.
func TestReadRecorded(t *testing.T) {
	first, second := fixtures(t)
	rose := rises(t, first, second)
	r, err := Read(context.Background(), twoPages(t, first, second), tenSeconds, after(10))
	must.OK(t, err)
	for key, want := range map[string]float64{
		"xds_pushes":              rose("pilot_xds_pushes") / 10,
		"inbound_updates":         rose("pilot_inbound_updates") / 10,
		"push_triggers":           rose("pilot_push_triggers") / 10,
		"config_bytes":            rose("pilot_xds_config_size_bytes_sum") / 10,
		"cpu_process_cores":       rose("process_cpu_seconds_total") / 10,
		"debounce_mean":           rose("pilot_debounce_time_sum") / rose("pilot_debounce_time_count"),
		"convergence_istiod_mean": rose("pilot_proxy_convergence_time_sum") / rose("pilot_proxy_convergence_time_count"),
		"services":                7, "xds_proxies": 2,
		// Every convergence was in the first bucket, which ends at 0.1 s.
		"convergence_istiod_p50": 0.05, "convergence_istiod_p99": 0.099, "convergence_istiod_p999": 0.0999,
	} {
		v, _ := r.Find(key)
		if v.Status != StatusOK || math.Abs(*v.Value-want) > 1e-6*max(1, want) {
			t.Errorf("%s: %+v, want %v", key, v, want)
		}
	}
	if rose("pilot_xds_pushes") == 0 {
		t.Error("nothing happened between the fixtures")
	}
}

func TestOptions(t *testing.T) {
	o := Options{Selector: `cluster="one"`, Window: 90 * time.Second}
	must.OK(t, o.Check())
	for _, s := range Table(o) {
		if strings.Contains(s.Expr, "$") || !strings.Contains(s.Expr, `cluster="one"`) {
			t.Errorf("%s", s.Expr)
		}
	}
	for _, wrong := range []string{`cluster=one`, `}) or vector(1`, `{cluster="one"}`, `,`} {
		if err := (Options{Selector: wrong}).Check(); err == nil {
			t.Errorf("selector %s is taken", wrong)
		}
	}
	for d, want := range map[time.Duration]string{time.Minute: "1m", 90 * time.Second: "90s", 1500 * time.Millisecond: "1500ms", time.Hour: "60m"} {
		if got := promDuration(d); got != want {
			t.Errorf("%s is spelled %s", d, got)
		}
	}
}
