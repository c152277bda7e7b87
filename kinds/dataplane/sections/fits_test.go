package sections

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/record"
)

// The table has what is fitted, in words, and leaves out what could not be.
func TestFitsTable(t *testing.T) {
	fit := func(name, unit string, value float64, cell record.Cell) record.Finding {
		return record.Finding{Name: name, Probe: "fit", Unit: unit, Estimate: value, Low: 0.9 * value, High: 1.1 * value, Blocks: 4, Verdict: record.VerdictMeasured, Cell: cell}
	}
	lost := fit("cpu_client_proxy_idle", "mCPU", 3, nil)
	lost.Verdict = record.VerdictInvalid
	f := record.Findings{
		Factors: []record.FactorLevels{{Factor: "sidecars", Levels: []string{"none", "both"}}, {Factor: "rate", Levels: []string{"100", "1000"}}},
		Findings: []record.Finding{
			fit("memory_server_proxy_per_cluster", "bytes/cluster", 21_500, record.Cell{"sidecars": "both"}),
			fit("cpu_server_proxy_per_route", "ns/request/route", 42, record.Cell{"sidecars": "both"}),
			fit("cpu_server_proxy_slope", "us/request", 110, record.Cell{"sidecars": "both"}),
			fit("latency_p50", "us", 110, nil), lost,
		},
	}
	var got []string
	table := fitsTable(f)
	for _, row := range table.Rows {
		var cells []string
		for _, c := range row {
			cells = append(cells, c.S)
		}
		got = append(got, strings.Join(cells, " | "))
	}
	want := []string{
		"server's proxy | CPU per additional request | sidecars both | 110 µs per request (99–121)",
		"server's proxy | memory for each cluster configured | sidecars both | 22 kB per cluster (19–24)",
		"server's proxy | CPU per request for each route before the one taken | sidecars both | 42 ns per request and route (38–46)",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") || len(table.Notes) == 0 {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if none := fitsTable(record.Findings{}); len(none.Rows) > 0 || len(none.Notes) > 0 {
		t.Errorf("%+v", none)
	}
}
