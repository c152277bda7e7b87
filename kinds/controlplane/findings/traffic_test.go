package findings

import (
	"testing"

	"github.com/meshtrial/meshtrial/record"
)

// Of traffic the smallest latency of all trials stays the smallest.
func TestAddTrafficMin(t *testing.T) {
	s := &record.ControlSummary{}
	for _, least := range []float64{300, 200, 500} {
		addTraffic(s, &record.Traffic{Latency: record.Latency{Min: least, Max: least + 100}})
	}
	if l := s.Traffic.Latency; l.Min != 200 || l.Max != 600 {
		t.Errorf("%+v", l)
	}
}
