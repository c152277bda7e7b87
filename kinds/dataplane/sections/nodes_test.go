package sections

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// The table of proxies on nodes has what they use with requests and without, and none
// for a study without any.
func TestNodes(t *testing.T) {
	none, ambient := record.Cell{"sidecars": "none"}, record.Cell{"sidecars": "ambient"}
	f := record.Findings{Factors: []record.FactorLevels{{Factor: "sidecars", Levels: []string{"none", "ambient"}}},
		Cells: []record.CellSummary{{Cell: none, Baseline: true}, {Cell: ambient}}}
	if table := nodesTable(f); len(table.Rows) > 0 || len(table.Notes) > 0 || len(nodeAnswers(f, ambient)) > 0 {
		t.Errorf("no proxy is on a node: %+v", table)
	}
	f.Cells[0].MemoryBytes = map[string]int64{record.PartIdleNode: 12e6}
	f.Cells[1] = record.CellSummary{Cell: ambient, Way: record.Way{record.PartClientNode, record.PartServerNode},
		CPUPerRequest: map[string]record.CPUPerRequest{record.PartClientNode: {UserUS: 40, SystemUS: 20}, record.PartServerNode: {UserUS: 30, SystemUS: 20}},
		MemoryBytes:   map[string]int64{record.PartClientNode: 20e6, record.PartServerNode: 22e6},
		Threads:       map[string]record.ThreadsSummary{record.PartClientNode: {Rows: []record.ThreadRow{{Name: "ztunnel", Threads: 3}}}, record.PartServerNode: {Rows: []record.ThreadRow{{Name: "ztunnel", Threads: 3}}}},
		Connections:   map[string]record.Connections{record.PartClientNode: {Opened: 16}, record.PartServerNode: {Accepted: 16}}}
	f.Findings = []record.Finding{
		{Name: study.FindingIdleNode, Unit: "mCPU", Cell: none, Verdict: record.VerdictMeasured, Estimate: 4, Low: 3, High: 5},
		{Name: study.FindingNodesNet, Unit: "us/request", Cell: ambient, Verdict: record.VerdictMeasured, Estimate: 102, Low: 100, High: 104},
	}
	table := nodesTable(f)
	if len(table.Rows) != 2 || len(table.Notes) != 1 {
		t.Fatalf("%+v", table)
	}
	for row, want := range [][]string{{"none", "–", "–", "4", "12", "–", "–"}, {"ambient", "110", "102", "–", "42", "6", "16"}} {
		for i, text := range want {
			if got := table.Rows[row][i].S; !strings.HasPrefix(got, text) {
				t.Errorf("row %d, %s: %q, want %q", row, table.Columns[i].Head, got, text)
			}
		}
	}
	want := "Proxies on nodes use 102 µs (100–104) for a request itself; each uses 4.00 mCPU without any."
	if got := nodeAnswers(f, ambient); len(got) != 1 || got[0] != want {
		t.Errorf("%q", got)
	}
}
