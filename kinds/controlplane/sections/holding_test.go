package sections

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/record"
)

func TestHoldingTable(t *testing.T) {
	held := record.Holding{Proxy: "a.test-1", Namespace: "test-1", Type: "sidecar", Proxies: 5, DumpBytes: 100_000, WireBytes: 20_000, Resources: 30,
		Others: record.OwnerBytes{DumpBytes: 10_000, WireBytes: 2_000, Resources: 3}, OtherOwners: 7}
	for i, name := range []string{"Service a/a", "Service a/b", "mesh defaults", "ServiceEntry x/y", "Service a/c"} {
		held.Owners = append(held.Owners, record.OwnerBytes{Owner: name, DumpBytes: int64(30_000 - 6000*i), WireBytes: int64(6000 - 1200*i), Resources: 10 - i})
	}
	real := record.Holding{Proxy: "real-1.test-1", Namespace: "test-1", Type: "sidecar", Real: true, Proxies: 1, DumpBytes: 300_000, Resources: 50, Owners: []record.OwnerBytes{{Owner: "mesh bootstrap", DumpBytes: 300_000, Resources: 1}}}
	router := record.Holding{Type: "router", Namespace: "edge", Proxies: 1, DumpBytes: 1}
	f := record.Findings{Cells: []record.CellSummary{{Control: &record.ControlSummary{Holdings: []record.Holding{real, held, router}}}, {}}}
	got := holdingTable(f)
	if len(got.Rows) != 2+1+4+1 {
		t.Fatalf("%d rows: %+v", len(got.Rows), got.Rows)
	}
	var lines []string
	for _, row := range got.Rows {
		var cells []string
		for _, c := range row {
			cells = append(cells, c.S)
		}
		lines = append(lines, strings.Join(cells, "|"))
	}
	for i, want := range []string{"all|real sidecar in test-1|all|300.0|100.0%|–|50", "||mesh bootstrap|300.0|100.0%|–|1", "all|one of 5 sidecars, in test-1|all|100.0|100.0%|20.0|30", "||Service a/a|30.0|30.0%|6.0|10"} {
		if lines[i] != want {
			t.Errorf("row %d: %q, want %q", i, lines[i], want)
		}
	}
	// The owners not shown and those nobody names are one row.
	if want := "||8 more owners|16.0|16.0%|3.2|9"; lines[7] != want {
		t.Errorf("%q, want %q", lines[7], want)
	}
	if notes := strings.Join(got.Notes, " "); !strings.Contains(notes, "More proxies (1)") || !strings.Contains(notes, "scope --run") {
		t.Error(notes)
	}
	if none := holdingTable(record.Findings{Cells: []record.CellSummary{{}}}); len(none.Rows) > 0 || none.Title != "" {
		t.Errorf("%+v", none)
	}
}
