package analysis

import (
	"reflect"
	"testing"

	"github.com/meshtrial/meshtrial/record"
)

func TestConditionsAreMedians(t *testing.T) {
	trial := func(established, again int64, busy float64) *record.Trial {
		return &record.Trial{
			Connections: map[string]record.Connections{record.PartGenerator: {Established: established, Opened: 2 * established, Accepted: 1, Retransmitted: again}},
			Pressure:    &record.Pressure{BusyRatio: busy, CPUSomeRatio: busy / 2, StealRatio: 0.01},
		}
	}
	trials := []*record.Trial{trial(10, 0, 0.2), {}, trial(30, 9, 0.9), trial(12, 1, 0.4)}
	if got, want := connections(trials), (map[string]record.Connections{record.PartGenerator: {Established: 12, Opened: 24, Accepted: 1, Retransmitted: 1}}); !reflect.DeepEqual(got, want) {
		t.Errorf("connections %+v, want %+v", got, want)
	}
	if got, want := Pressure(trials), (&record.Pressure{BusyRatio: 0.4, CPUSomeRatio: 0.2, StealRatio: 0.01}); !reflect.DeepEqual(got, want) {
		t.Errorf("pressure %+v, want %+v", got, want)
	}
	if got := connections([]*record.Trial{{}}); len(got) != 0 {
		t.Errorf("connections of nothing: %v", got)
	}
	if got := Pressure(nil); got != nil {
		t.Errorf("pressure of nothing: %v", got)
	}
}
