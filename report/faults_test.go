package report

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/must"
)

// For unwanted events the report says in how many trials they happened: minimum and
// maximum are not an interval.
func TestFaultsAreNoIntervals(t *testing.T) {
	s := Scale{Div: 1, Unit: "changes"}
	x := record.Finding{Estimate: 9, Low: 0, High: 90, Blocks: 10, Verdict: record.VerdictReal, Trials: &record.FaultTrials{With: 1, Of: 10}}
	if got := Figure(x, s).S; got != "in 1 of 10 trials, at most 90" {
		t.Error(got)
	}
	if got := WithInterval(s, x); got != "in 1 of 10 trials, at most 90 changes" {
		t.Error(got)
	}
	x.Estimate, x.High, x.Trials.With = 0, 0, 0
	if got := WithInterval(s, x); got != "in none of 10 trials" {
		t.Error(got)
	}
}

// A figure without interval has none in the CSV, and an unknown value is empty.
func TestCSVWithoutIntervals(t *testing.T) {
	f := record.Findings{Study: "s", Run: "r",
		Findings: []record.Finding{
			{Name: "missed", Unit: "pairs", Estimate: 9, High: 90, Blocks: 10, Verdict: record.VerdictReal, Trials: &record.FaultTrials{With: 1, Of: 10}},
			{Name: "highest_rate", Unit: "rps", High: 500, Blocks: 3, Verdict: record.VerdictMeasured, Open: record.OpenLow},
			{Name: "highest_proxies", Blocks: 3, Verdict: record.VerdictInconclusive, Open: record.OpenBoth},
			{Name: "cpu_worker_per_request", Unit: "us/request", Blocks: 1, Verdict: record.VerdictInvalid},
			{Name: "latency_p99", Unit: "us", Blocks: 1, Verdict: record.VerdictInvalid, Reason: record.ReasonTooFew},
			{Name: "highest_connections", Estimate: 16, High: 64, Blocks: 3, Verdict: record.VerdictMeasured, Open: record.OpenLow},
		},
		Cells: []record.CellSummary{{Valid: 1, Values: map[string]float64{"cpu_worker_per_request": 40, "latency_p99": 5}}}}
	var out strings.Builder
	must.OK(t, renderCSV(&out, Kind{}, f, Options{}))
	for _, want := range []string{"s,r,finding,missed,9,,,pairs,", "s,r,finding,highest_rate,,,500,rps,", "s,r,finding,highest_proxies,,,,,", "s,r,finding,highest_connections,16,,64,,",
		"s,r,finding,cpu_worker_per_request,40,,,us/request,1,,invalid,", "s,r,finding,latency_p99,,,,us,1,,invalid,"} {
		if !strings.Contains(out.String(), "\n"+want) {
			t.Errorf("no row begins with %q:\n%s", want, out.String())
		}
	}
}
