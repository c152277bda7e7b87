package istio

import (
	"maps"
	"testing"

	"github.com/meshmark/meshmark/record"
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
	now := map[string]float64{
		"listener.0.0.0.0_15006.worker_0.downstream_cx_active": 9,
		"listener.0.0.0.0_15006.worker_0.downstream_cx_total":  500,
		"listener.0.0.0.0_15090.worker_1.downstream_cx_active": 1,
	}
	got := m.WorkerConnections(rise, now)
	want := map[int]record.WorkerConnections{0: {Accepted: 10, Open: 9}, 1: {Accepted: 8}}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	filter := compiled(t)
	for name := range rise {
		if m.WorkerStat(name) && !filter.MatchString(name) {
			t.Errorf("%s is not asked for", name)
		}
	}
}
