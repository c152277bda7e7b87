package istio

import (
	"maps"
	"testing"
)

func TestConnectionsByWorker(t *testing.T) {
	m := &Mesh{}
	rise := map[string]float64{
		"listener.0.0.0.0_15006.worker_0.downstream_cx_total":  10,
		"listener.0.0.0.0_15006.worker_1.downstream_cx_total":  6,
		"listener.10.96.7.1_8080.worker_1.downstream_cx_total": 2,
		"listener.0.0.0.0_15021.worker_0.downstream_cx_total":  99, // readiness
		"listener.0.0.0.0_15006.downstream_cx_total":           18,
		"listener.admin.main_thread.downstream_cx_total":       5,
		"cluster.inbound|8080||.upstream_cx_total":             7,
	}
	if got, want := m.AcceptedByWorker(rise), map[int]int64{0: 10, 1: 8}; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	filter := compiled(t)
	for name := range rise {
		if m.WorkerStat(name) && !filter.MatchString(name) {
			t.Errorf("%s is not asked for", name)
		}
	}
}
