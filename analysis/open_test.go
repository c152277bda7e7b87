package analysis_test

import (
	"testing"

	"github.com/meshtrial/meshtrial/record"
)

// The unknown end of a search is not a figure: nothing may depend on it, and it
// is reported as open.
func TestAssertionsAboutOpenEnds(t *testing.T) {
	f := record.Findings{Findings: []record.Finding{
		{Name: "highest_rate", Unit: "requests/s", Estimate: 8000, Low: 8000, High: 8000, Open: record.OpenHigh, Blocks: 3, Verdict: record.VerdictMeasured, Cell: record.Cell{"sidecars": "none"}},
		{Name: "highest_rate", Unit: "requests/s", Estimate: 0, Low: 0, High: 500, Open: record.OpenLow, Blocks: 3, Verdict: record.VerdictMeasured, Cell: record.Cell{"sidecars": "both"}},
		{Name: "highest_rate", Unit: "requests/s", Estimate: 2000, Low: 1000, High: 4000, Blocks: 3, Verdict: record.VerdictMeasured, Cell: record.Cell{"sidecars": "server"}},
	}}
	for _, c := range []judgement{
		{`finding("highest_rate", {"sidecars": "none"}).high < 10000.0`, false, "highest_rate at sidecars none has no upper end"},
		{`finding("highest_rate", {"sidecars": "none"}).low >= 8000.0`, true, "8000 requests/s or more, measured"},
		{`finding("highest_rate", {"sidecars": "none"}).open == "high"`, true, ""},
		{`finding("highest_rate", {"sidecars": "both"}).high < 1000.0`, true, "below 500 requests/s, measured"},
		{`finding("highest_rate", {"sidecars": "both"}).low > 0.0`, false, ""},
		{`finding("highest_rate", {"sidecars": "server"}).high < 5000.0`, true, "(1000 requests/s to 4000 requests/s)"},
	} {
		c.judge(t, f)
	}
}
