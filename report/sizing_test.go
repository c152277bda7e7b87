package report

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/record"
)

// A waypoint that does less than Istio's is marked as such when compared with other
// ways.
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

// If not all columns fit, the use of proxies without requests is among the last to be
// dropped.
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

// The cost of a way has a column if the study has prices, and its border a row.
func TestSizingTablesHavePrices(t *testing.T) {
	priced := func(of, unit string, v float64) record.SizedUse {
		return record.SizedUse{Of: of, Total: record.Priced{Estimate: v, Low: 0.9 * v, High: 1.1 * v, Unit: unit, Blocks: 4, Verdict: record.VerdictMeasured}}
	}
	cpu := priced(record.SizedCPU, "cores", 2)
	unknown := record.SizedUse{Of: record.SizedMonth, Total: record.Priced{Unit: "EUR/month", Verdict: record.VerdictInvalid}}
	z := record.Sizing{Ways: []record.SizedWay{
		{Name: "sidecars", Uses: []record.SizedUse{priced(record.SizedMonth, "EUR/month", 1234), cpu}},
		{Name: "ambient", Uses: []record.SizedUse{unknown, cpu}}, {Name: "ambient with waypoints", Uses: []record.SizedUse{cpu}},
	}, Borders: []record.SizedBorder{{Of: record.SizedMonth, Between: []string{"sidecars", "ambient"}}}}
	tables := SizingTables(record.Findings{Sizings: []record.Sizing{z}})
	if got := tables[0].Columns[1].Head; got != "a month, EUR" {
		t.Errorf("the second column is %q", got)
	}
	for i, want := range []string{"1,230 (1,110–1,360)", "not valid", "–"} {
		if got := tables[0].Rows[i][1].S; got != want || len(tables[0].Rows[i]) != len(tables[0].Columns) {
			t.Errorf("row %d has %q, want %q, in %d of %d columns", i, got, want, len(tables[0].Rows[i]), len(tables[0].Columns))
		}
	}
	if got := tables[1].Rows[0][0].S; got != "price" {
		t.Errorf("the border is of %q", got)
	}
	for i := range z.Ways {
		z.Ways[i].Uses = []record.SizedUse{cpu}
	}
	if got := SizingTables(record.Findings{Sizings: []record.Sizing{z}})[0].Columns[1].Head; strings.Contains(got, "month") {
		t.Errorf("without prices the second column is %q", got)
	}
}
