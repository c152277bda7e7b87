package observe

import (
	"maps"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/record"
)

// istiodMetrics lists the istiod metrics that findings depend on
// (pilot/pkg/xds/monitoring.go, pkg/xds/monitoring.go). OpenTelemetry exposes a
// metric only once something was recorded in it.
var istiodMetrics = []string{
	"pilot_debounce_time", // unless EDS debouncing is off and only endpoints change
	"pilot_inbound_updates",
	"pilot_proxy_convergence_time",
	"pilot_proxy_queue_time",
	"pilot_push_triggers",
	"pilot_pushcontext_init_seconds",
	"pilot_services",
	"pilot_xds",
	"pilot_xds_config_size_bytes",
	"pilot_xds_push_time",
	"pilot_xds_pushes",
	"pilot_xds_send_time",
	"process_cpu_seconds_total",
	"process_resident_memory_bytes",
	"process_start_time_seconds",
	"go_goroutines",
	"go_memstats_alloc_bytes_total",
	"go_memstats_heap_alloc_bytes",
}

// IstiodHeap returns the metrics of istiod's Go runtime, summed over replicas: bytes
// in use on the heap, bytes allocated since the start, and goroutines. ok is false if
// a page lacks one.
func IstiodHeap(s Scrape) (heap, allocated, goroutines int64, ok bool) {
	a, okA := s.Sum("go_memstats_heap_alloc_bytes")
	b, okB := s.Sum("go_memstats_alloc_bytes_total")
	c, okC := s.Sum("go_goroutines")
	return int64(a), int64(b), int64(c), okA && okB && okC
}

// liveHeap returns the heap that remained after the last garbage collections of all
// replicas. It is not a metric, but follows from the size at which the next
// collection starts: twice the live heap with Go's default GOGC; newer versions
// report other values of GOGC. If GOMEMLIMIT restricts the heap, the live heap is
// larger than that estimate.
func liveHeap(s Scrape) int64 {
	next, ok := s.Sum("go_memstats_next_gc_bytes")
	if !ok {
		return 0
	}
	percent, replicas := 100.0, float64(len(s.Replicas))
	if sum, ok := s.Sum("go_gc_gogc_percent"); ok && replicas > 0 {
		percent = sum / replicas
	}
	return int64(next / (1 + percent/100))
}

// FillControl adds istiod's metrics of a window to a trial's record: increases and
// gauges of its own metrics, heap, allocation, goroutines, and which metrics are
// missing or were not counted.
func FillControl(c *record.Control, before, after Scrape) error {
	rises, err := after.Since(before)
	if err != nil {
		return err
	}
	maps.DeleteFunc(rises, func(key string, _ float64) bool { return !keep(key) || empty(key, rises) })
	gauges := after.Gauges()
	maps.DeleteFunc(gauges, func(key string, _ float64) bool { return !keep(key) })
	c.Istiod, c.IstiodGauges = rises, gauges
	if n, ok := before.Sum("pilot_xds"); ok {
		connected := int(n)
		c.ConnectedBefore = &connected
	}
	c.Missing = after.Lacks(istiodMetrics)
	if heap, allocated, goroutines, ok := IstiodHeap(after); ok {
		_, allocatedBefore, _, _ := IstiodHeap(before)
		c.HeapBytes, c.Goroutines, c.AllocBytes = heap, goroutines, allocated-allocatedBefore
	}
	c.LiveBytes = liveHeap(after)
	return nil
}

// keep reports whether a series is worth keeping with each trial: istiod's own, and
// those of its process.
func keep(key string) bool {
	return slices.ContainsFunc([]string{"pilot_", "process_", "go_goroutines", "go_memstats_heap", "go_memstats_alloc",
		"go_gc_duration_seconds_sum", "go_sched_gomaxprocs", "galley_", "istiod_", "xds_", "citadel_server_"},
		func(prefix string) bool { return strings.HasPrefix(key, prefix) })
}

// empty reports whether a series is a bucket of a histogram that counted nothing in
// the window.
func empty(key string, rises map[string]float64) bool {
	name, labels, _ := strings.Cut(key, "{")
	base, bucket := strings.CutSuffix(name, "_bucket")
	if !bucket {
		return false
	}
	// The labels of _count are those of the bucket without le, which sorts by name.
	var rest []string
	for _, pair := range strings.Split(strings.TrimSuffix(labels, "}"), ",") {
		if !strings.HasPrefix(pair, "le=") {
			rest = append(rest, pair)
		}
	}
	count := base + "_count"
	if len(rest) > 0 {
		count += "{" + strings.Join(rest, ",") + "}"
	}
	counted, known := rises[count]
	return known && counted == 0
}
