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

// Where not all columns fit, what a proxy takes without requests stays as long as any.
func TestSizingTablesKeepWhatProxiesTakeWithoutRequests(t *testing.T) {
	figure := func(v float64, unit string) record.Priced {
		return record.Priced{Estimate: v, Low: 0.9 * v, High: 1.1 * v, Unit: unit, Blocks: 4, Verdict: record.VerdictMeasured}
	}
	machine := figure(300, "us/request")
	f := record.Findings{Sizings: []record.Sizing{{Ways: []record.SizedWay{{Name: "sidecars", Machine: &machine, Uses: []record.SizedUse{
		{Of: record.SizedCPU, Total: figure(2.5, "cores"), Idle: map[record.Place]record.Priced{record.PlaceSidecar: figure(0.005, "cores")}, Request: figure(300, "us/request")},
		{Of: record.SizedMemory, Total: figure(12e9, "bytes"), Idle: map[record.Place]record.Priced{record.PlaceSidecar: figure(60e6, "bytes")}, Request: figure(1000, "bytes/rps")},
	}}}}}}
	for width, want := range map[int][]string{
		100: {"CPU per 1,000 requests/s, cores", "memory per 1,000 requests/s", "memory without requests, each", "whole machine per 1,000 requests/s, cores"},
		160: {"memory per 1,000 requests/s", "whole machine per 1,000 requests/s, cores"},
	} {
		w := &textWriter{opt: Options{Width: width}}
		w.table(SizingTables(f)[0])
		if got := strings.Join(strings.Fields(w.b.String()), " "); !strings.Contains(got, "Columns omitted for width: "+strings.Join(want, "; ")+".") {
			t.Errorf("at %d columns: %q are not what is left out of %q", width, want, got)
		}
	}
}
