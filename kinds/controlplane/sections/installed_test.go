package sections

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
	"github.com/meshtrial/meshtrial/testing/reporttest"
)

// What levers were as installed is told once for the run, in the levers' order, and
// of those that every cell names nothing.
func TestInstalledTable(t *testing.T) {
	f := reporttest.Tuning(t)
	if table := installedTable(f); len(table.Rows) != 0 || len(table.Notes) != 0 {
		t.Errorf("nothing was looked for: %+v", table)
	}
	for i := range f.Cells {
		f.Cells[i].Control.Installed = record.Cell{"istiod_replicas": "3", "debounce_after": "1s", "xds_cache": "true"}
	}
	delete(f.Cells[1].Control.Installed, "debounce_after") // a cell that names it
	f.Cells[2].Control.Installed["istiod_replicas"] = "2"
	text := rendered(t, installedTable(f))
	says(t, text, "Levers as installed", "debounce_after", "1s", "istiod_replicas  3; 2", "xds_cache")
	if strings.Index(text, "debounce_after") > strings.Index(text, "xds_cache") || strings.Count(text, "debounce_after") != 1 || strings.Contains(text, "istiod_cpu") {
		t.Errorf("%s", text)
	}
	if n := strings.Count(render(t, f, "text", report.Options{Width: 200}), "Levers as installed"); n != 1 {
		t.Errorf("told %d times", n)
	}
}
