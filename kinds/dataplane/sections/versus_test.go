package sections

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
)

// Regressions are told in words, with their size, and what is not told from
// chance is not called one.
func TestVersionAnswers(t *testing.T) {
	x := func(name, verdict string, value float64, version, before string) record.Finding {
		return record.Finding{Name: name + "_change_since_x", Probe: "versus", Unit: "ratio", Estimate: value, Low: value - 0.02, High: value + 0.02, Blocks: 8, Verdict: verdict,
			Cell: record.Cell{"envoy": version}, Against: record.Cell{"envoy": before}}
	}
	f := record.Findings{Findings: []record.Finding{
		x("cpu_server_proxy", record.VerdictReal, 0.1, "1.2.0", "1.1.0"),
		x("latency_p50", record.VerdictReal, -0.05, "1.2.0", "1.1.0"),
		x("cpu_server_proxy", record.VerdictNoEffect, 0.01, "1.1.0", "1.0.0"),
		x("memory_server_proxy", record.VerdictReal, 0.3, "1.2.0", "1.0.0"),
		x("latency_p99", record.VerdictInvalid, 0.3, "1.2.0", "1.0.0"),
		x("latency_p50", record.VerdictInconclusive, 0.01, "1.2.0", "1.0.0"),
	}}
	got := strings.Join(versionAnswers(f), "\n")
	want := "Envoy 1.2.0 against 1.1.0: less median latency by 5 (3–7)%; but a regression: more CPU per request of the server's proxy by 10 (8–12)%.\n" +
		"Envoy 1.1.0 against 1.0.0: no effect beyond the margin: CPU per request of the server's proxy.\n" +
		"Envoy 1.2.0 against 1.0.0: a regression: more memory of the server's proxy by 30 (28–32)%; inconclusive: median latency, 1 (-1 to 3)%."
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := filterAnswers(f); len(got) != 0 {
		t.Errorf("there are no filters: %q", got)
	}
	tables := []report.Table{versionsTable(pairings(f)), filtersTable(f, filterPairings(f))}
	if len(tables[0].Rows) != 6 || len(tables[1].Rows) != 0 || tables[0].Rows[0][0].S != "1.2.0" || tables[0].Rows[0][1].S != "1.1.0" {
		t.Errorf("%+v", tables)
	}
}

// Filters have a row for each pair, and a sentence where a share is real.
func TestFilterPairs(t *testing.T) {
	x := func(name, by, verdict string, value float64, concurrency string) record.Finding {
		return record.Finding{Name: name + "_saved_by_" + by, Probe: "versus", Unit: "ratio", Estimate: value, Low: value - 0.02, High: value + 0.02, Blocks: 8, Verdict: verdict,
			Cell: record.Cell{"filters": "wasm", "concurrency": concurrency}, Against: record.Cell{"filters": by, "concurrency": concurrency}}
	}
	f := record.Findings{
		Factors: []record.FactorLevels{{Factor: "filters", Levels: []string{"none", "wasm", "lua"}}, {Factor: "concurrency", Levels: []string{"1", "2"}}},
		Findings: []record.Finding{
			x("cpu_server_proxy", "none", record.VerdictReal, 0.14, "1"),
			x("cpu_server_proxy", "lua", record.VerdictNoEffect, 0.01, "1"),
			x("cpu_server_proxy", "none", record.VerdictInvalid, 0.2, "2"),
			x("memory_server_proxy", "none", record.VerdictReal, 0.3, "1"),
			x("memory_server_proxy", "none", record.VerdictInconclusive, 0.07, "2"),
		}}
	// The other way around, as a study that names lua first has it too.
	back := x("cpu_server_proxy", "wasm", record.VerdictNoEffect, -0.01, "1")
	back.Cell, back.Against = back.Against.With(record.Cell{"filters": "lua"}), record.Cell{"filters": "wasm", "concurrency": "1"}
	f.Findings = append([]record.Finding{back}, f.Findings...)
	got := strings.Join(filterAnswers(f), "\n")
	want := "With none in place of wasm the server's proxy uses 14 (12–16)% less CPU per request (concurrency 1).\n" +
		"1 other comparison of the filters' CPU in the server's proxy: no effect beyond the margin."
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	table := filtersTable(f, filterPairings(f))
	var rows []string
	for _, row := range table.Rows {
		var cells []string
		for _, cell := range row {
			cells = append(cells, cell.S)
		}
		rows = append(rows, strings.Join(cells, "|"))
	}
	if got, want := strings.Join(rows, "\n"), "wasm|none|concurrency 1|14 (12–16)%|30 (28–32)%\nwasm|lua|concurrency 1|1 (-1 to 3)% no effect|–\nwasm|none|concurrency 2|too few blocks|7 (5–9)% ?"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if rest := report.Other(Kind().Findings, false).Tables(f)[0]; len(rest.Rows) != 0 {
		t.Errorf("told twice: %+v", rest.Rows)
	}
}
