package report

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/record"
)

// A waypoint that does less than Istio's is said to where it is set beside other ways.
func TestSizingTablesSayWhatAWaypointLacks(t *testing.T) {
	f := record.Findings{Parts: []record.Component{{Name: record.PartWaypoint, Source: "an upstream Envoy", Lacks: []string{"metrics"}}}}
	for place, want := range map[record.Place]bool{record.PlaceWaypoint: true, record.PlaceNode: false} {
		f.Sizings = []record.Sizing{{Ways: []record.SizedWay{{Name: "ambient", Uses: []record.SizedUse{
			{Of: record.SizedCPU, Idle: map[record.Place]record.Priced{place: {Unit: "cores", Verdict: record.VerdictMeasured}}}}}}}}
		notes := strings.Join(SizingTables(f)[0].Notes, "\n")
		if got := strings.Contains(notes, "The waypoint is an upstream Envoy and lacks metrics"); got != want {
			t.Errorf("with %s: %q", place, notes)
		}
	}
}
