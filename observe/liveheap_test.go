package observe

import "testing"

func TestLiveHeap(t *testing.T) {
	page := func(metrics ...Metric) Scrape { return Scrape{Replicas: map[string][]Metric{"a": metrics}} }
	next := Metric{Name: "go_memstats_next_gc_bytes", Type: "gauge", Value: 120e6}
	for _, c := range []struct {
		name string
		of   Scrape
		want int64
	}{
		{"Go's default", page(next), 60e6},
		{"GOGC=200", page(next, Metric{Name: "go_gc_gogc_percent", Type: "gauge", Value: 200}), 40e6},
		{"no such metric", page(Metric{Name: "go_goroutines", Type: "gauge", Value: 7}), 0},
		{"two replicas", Scrape{Replicas: map[string][]Metric{"a": {next}, "b": {next}}}, 120e6},
	} {
		if got := liveHeap(c.of); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}
