package sections

import (
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
)

// Tables show the use of both control planes, and what they send differently; a use that was not
// counted has dashes.
func TestPlanes(t *testing.T) {
	f := shop(t, 1)
	f.Cells[0].Scenario.Planes = []record.ScenarioPlanes{{Step: "second", Seconds: 50, Removed: true,
		First: record.ScenarioPlane{Revision: "default", Version: "1.31", CPU: record.CPU{UserS: 1}, MemoryBytes: 90e6}, Second: record.ScenarioPlane{Revision: "other", Version: "1.30"},
		Compared: &record.PlaneConfigs{Proxies: []string{"bar-0", "clients-0"}, Resources: 80, Differing: 1, Differences: []record.ConfigDifference{
			{Type: "lds", Path: "filter_chains[].filters[istio.stats]", Second: strings.Repeat("x", 500), Resources: 1, Example: "in"}, {Type: "cds", First: "present", Resources: 1, Example: "c"}}}}}
	texts := func(row []report.Text) (out []string) {
		for _, one := range row[len(row)-6:] {
			out = append(out, one.S)
		}
		return out
	}
	use, differ := planeTable(f), configTable(f)
	if got := texts(use.Rows[0]); !slices.Equal(got, []string{"default", "1.31", "50.00 s", "20.0 mCPU", "90.0 MB", ""}) {
		t.Errorf("%q", got)
	}
	if got := texts(use.Rows[1]); got[1] != "1.30" || got[4] != "–" || got[5] != "removed" {
		t.Errorf("%q", got)
	}
	if got := texts(differ.Rows[0]); got[0] != "lds" || got[3] != "–" || len(got[4]) != maxValue+len("...") {
		t.Errorf("%q", got)
	}
	if got := texts(differ.Rows[1]); got[2] != "the resource" || got[3] != "present" {
		t.Errorf("%q", got)
	}
	if len(differ.Notes) != 1 || !strings.Contains(differ.Notes[0], "of 80 resources for 2 proxies, 1 differ") {
		t.Errorf("%q", differ.Notes)
	}
}
