package sections

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
	"github.com/meshtrial/meshtrial/testing/reporttest"
)

// What a search did not find the end of is told so in every form.
func TestOpenEnds(t *testing.T) {
	search := func(name, sidecars string, low, high float64, open string) record.Finding {
		return record.Finding{Name: name, Probe: "search", Cell: record.Cell{"sidecars": sidecars}, Unit: "requests/s", Estimate: low, Low: low, High: high, Open: open, Blocks: 3, Verdict: record.VerdictMeasured}
	}
	f := record.Findings{
		Validity: record.ValiditySummary{Trials: 12, Valid: 12, Blocks: 3}, Factors: []record.FactorLevels{reporttest.Sidecars},
		Cells: []record.CellSummary{{Cell: record.Cell{"sidecars": "none"}}, {Cell: record.Cell{"sidecars": "both"}}},
		Findings: []record.Finding{search("highest_rate", "none", 8000, 8000, record.OpenHigh), search("highest_rate", "both", 0, 500, record.OpenLow),
			search("knee_rate", "none", 4000, 8000, ""), search("highest_connections", "none", 64, 64, record.OpenHigh), search("highest_connections", "both", 16, 32, "")},
	}
	text := render(t, f, "text", report.Options{Width: 160})
	for _, want := range []string{"8,000 or more", "below 500", "64.0 requests/s or more", "16 requests/s (16–32)", "no confidence interval"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if strings.Contains(text, "64.0–64.0") || strings.Contains(text, "(95% interval, from a rate") {
		t.Error(text)
	}
	rows := strings.Split(render(t, f, "csv", report.Options{}), "\n")
	for _, want := range []string{",8000,8000,,requests/s,3,,measured,,high", ",,,500,requests/s,3,,measured,,low", ",4000,4000,8000,requests/s,3,,measured,,"} {
		found := false
		for _, row := range rows {
			found = found || strings.HasSuffix(row, want)
		}
		if !found {
			t.Errorf("no row ends in %q:\n%s", want, strings.Join(rows, "\n"))
		}
	}
}

// The latency tables give every reason for which a difference is not called, and count
// all requests that have no latency.
func TestLatencyNotes(t *testing.T) {
	doubted := record.Finding{Name: "latency_p99_overhead", Probe: "latency", Cell: record.Cell{"sidecars": "both"}, Against: record.Cell{"sidecars": "none"},
		Estimate: 40, Low: 10, High: 70, Unit: "us", Blocks: 6, Verdict: record.VerdictInconclusive, Reason: record.ReasonMany}
	f := record.Findings{Factors: []record.FactorLevels{reporttest.Sidecars}, Findings: []record.Finding{doubted},
		Cells: []record.CellSummary{{Cell: record.Cell{"sidecars": "none"}, Baseline: true, Valid: 6}, {Cell: record.Cell{"sidecars": "both"}, Valid: 6}}}
	notes := strings.Join(overheadTable(f).Notes, "\n")
	for _, want := range []string{"includes zero", "identical baselines differ as much", "by chance", "generator's own lag"} {
		if !strings.Contains(notes, want) {
			t.Errorf("%q is not in %q", want, notes)
		}
	}
	for _, c := range []struct {
		failed, unfinished int64
		want               string
	}{
		{0, 0, ""}, {2, 0, "2 requests failed; they count"}, {0, 1, "1 request did not end; they count"}, {1000, 7000, "1,000 requests failed and 7,000 did not end; they count"},
	} {
		f.Cells[1].Failed, f.Cells[1].Unfinished = c.failed, c.unfinished
		notes := strings.Join(latencyTable(f).Notes, "\n")
		if !strings.Contains(notes, c.want) || (c.want == "") == strings.Contains(notes, "infinitely late") {
			t.Errorf("%d failed, %d unfinished: %q", c.failed, c.unfinished, notes)
		}
	}
}
