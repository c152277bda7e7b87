package observe

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/must"
)

// page is the /metrics page of a server.
func page(start, cpu, pushes float64, more string) string {
	return fmt.Sprintf(`# TYPE process_start_time_seconds gauge
process_start_time_seconds %g
# TYPE process_cpu_seconds_total counter
process_cpu_seconds_total %g
# TYPE pilot_xds_pushes counter
pilot_xds_pushes{type="cds"} %g
# TYPE go_goroutines gauge
go_goroutines 800
%s`, start, cpu, pushes, more)
}

func scrapeOf(t *testing.T, pages map[string]string) Scrape {
	t.Helper()
	var replicas []Replica
	for name, text := range pages {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/metrics" {
				http.NotFound(w, r)
				return
			}
			fmt.Fprint(w, text)
		}))
		t.Cleanup(server.Close)
		replicas = append(replicas, Replica{Name: name, HTTP: server.Client(), Base: server.URL})
	}
	s, err := ScrapeAll(t.Context(), replicas)
	must.OK(t, err)
	return s
}

const histogram = `# TYPE pilot_debounce_time histogram
pilot_debounce_time_bucket{le="0.1"} 1
pilot_debounce_time_bucket{le="+Inf"} 3
pilot_debounce_time_sum 0.4
pilot_debounce_time_count 3
`

func TestRises(t *testing.T) {
	before := scrapeOf(t, map[string]string{"a": page(1, 5, 10, ""), "b": page(2, 7, 20, "")})
	after := scrapeOf(t, map[string]string{"a": page(1, 5.5, 12, histogram), "b": page(2, 7, 25, "")})
	rises, err := after.Since(before)
	must.OK(t, err)
	for key, want := range map[string]float64{`pilot_xds_pushes{type="cds"}`: 7, "process_cpu_seconds_total": 0.5,
		"pilot_debounce_time_count": 3, "pilot_debounce_time_sum": 0.4, `pilot_debounce_time_bucket{le="0.1"}`: 1} {
		if got := rises[key]; got != want {
			t.Errorf("%s rose by %g, want %g", key, got, want)
		}
	}
	if _, ok := rises["go_goroutines"]; ok {
		t.Error("a gauge has no rise")
	}
	if g := after.Gauges()["go_goroutines"]; g != 1600 {
		t.Errorf("%g goroutines", g)
	}
	if cpu, ok, err := ProcessCPU(before.Replicas["a"], after.Replicas["a"]); err != nil || !ok || cpu.UserS != 0.5 {
		t.Errorf("CPU %+v %v %v", cpu, ok, err)
	}
}

// A process that restarted, appeared or disappeared has no increase.
func TestRisesSeeRestarts(t *testing.T) {
	before := scrapeOf(t, map[string]string{"a": page(1, 5, 10, "")})
	for name, pages := range map[string]map[string]string{
		"another start":  {"a": page(3, 5, 10, "")},
		"fell":           {"a": page(1, 5, 9, "")},
		"gone":           {"b": page(1, 5, 10, "")},
		"one more":       {"a": page(1, 5, 10, ""), "b": page(1, 5, 10, "")},
		"another, lower": {"a": page(4, 0.1, 0, "")},
	} {
		after := scrapeOf(t, pages)
		if rises, err := after.Since(before); !errors.Is(err, ErrReset) || rises != nil {
			t.Errorf("%s: %v, %v", name, rises, err)
		}
	}
	if _, _, err := ProcessCPU(before.Replicas["a"], scrapeOf(t, map[string]string{"a": page(3, 6, 10, "")}).Replicas["a"]); !errors.Is(err, ErrReset) {
		t.Errorf("CPU after a restart: %v", err)
	}
	if _, ok, err := ProcessCPU(nil, before.Replicas["a"]); ok || err != nil {
		t.Errorf("CPU that a page does not say: %v %v", ok, err)
	}
}

func TestFillControl(t *testing.T) {
	heap := func(alloc float64) string {
		return fmt.Sprintf("# TYPE go_memstats_heap_alloc_bytes gauge\ngo_memstats_heap_alloc_bytes 1000\n# TYPE go_memstats_alloc_bytes_total counter\ngo_memstats_alloc_bytes_total %g\n# TYPE unrelated counter\nunrelated %g\n", alloc, alloc)
	}
	const connected = "# TYPE pilot_xds gauge\npilot_xds{version=\"1.30\"} %d\npilot_xds{version=\"1.31\"} 2\n"
	before := scrapeOf(t, map[string]string{"a": page(1, 5, 10, heap(100)+histogram+fmt.Sprintf(connected, 3))})
	after := scrapeOf(t, map[string]string{"a": page(1, 5, 12, heap(600)+histogram+fmt.Sprintf(connected, 1))})
	var c record.Control
	must.OK(t, FillControl(&c, before, after))
	if c.HeapBytes != 1000 || c.AllocBytes != 500 || c.Goroutines != 800 {
		t.Errorf("heap %d, allocated %d, goroutines %d", c.HeapBytes, c.AllocBytes, c.Goroutines)
	}
	if c.ConnectedBefore == nil || *c.ConnectedBefore != 5 || c.IstiodGauges[`pilot_xds{version="1.30"}`] != 1 {
		t.Errorf("connected before the window %v, gauges after it %v", c.ConnectedBefore, c.IstiodGauges)
	}
	if _, ok := c.Istiod["unrelated"]; ok || c.Istiod[`pilot_xds_pushes{type="cds"}`] != 2 {
		t.Errorf("rises %v", c.Istiod)
	}
	if _, ok := c.Istiod[`pilot_debounce_time_bucket{le="0.1"}`]; ok {
		t.Error("buckets of a histogram that counted nothing are kept")
	}
	if count, ok := c.Istiod["pilot_debounce_time_count"]; !ok || count != 0 {
		t.Error("a count of nothing is a figure")
	}
	// Metrics that this istiod lacks are missing; errors that never occurred
	// are not.
	if !slices.Contains(c.Missing, "pilot_xds_push_time") || slices.Contains(c.Missing, "pilot_debounce_time") ||
		slices.Contains(c.Missing, "pilot_xds_pushes") || slices.Contains(c.Missing, "pilot_total_xds_rejects") {
		t.Errorf("missing %v", c.Missing)
	}
}

func TestFetchRefusals(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/forbidden/metrics", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	mux.HandleFunc("/broken/metrics", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	mux.HandleFunc("/garbage/metrics", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "a{b\n") })
	mux.HandleFunc("/endless/metrics", func(w http.ResponseWriter, r *http.Request) {
		line := []byte(strings.Repeat("a 1\n", 1<<16))
		for r.Context().Err() == nil {
			if _, err := w.Write(line); err != nil {
				return
			}
		}
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	if metrics, ok, err := APIServer(t.Context(), server.Client(), server.URL+"/forbidden/"); metrics != nil || ok || err != nil {
		t.Errorf("forbidden: %v, %v, %v", metrics, ok, err)
	}
	if _, ok, err := APIServer(t.Context(), server.Client(), server.URL+"/none"); ok || err != nil {
		t.Errorf("no such page: %v, %v", ok, err)
	}
	for name, says := range map[string]string{"broken": "500", "garbage": "prometheus page", "endless": "larger than 67108864 bytes"} {
		_, _, err := APIServer(t.Context(), server.Client(), server.URL+"/"+name)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Fetch(ended, server.Client(), server.URL+"/garbage/metrics"); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that ended: %v", err)
	}
}
