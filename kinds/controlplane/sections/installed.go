package sections

import (
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
)

// installedTable lists, once per run, the values of the levers that the study leaves as installed.
func installedTable(f record.Findings) report.Table {
	t := report.Table{Title: "Levers as installed", Columns: []report.Column{{Head: "lever"}, {Head: "found"}}}
	for _, lever := range controlplane.Levers() {
		var found []string
		for _, c := range f.Cells {
			if level := c.Control.Installed[lever.Name]; level != "" && !slices.Contains(found, level) {
				found = append(found, level)
			}
		}
		if len(found) > 0 {
			t.Rows = append(t.Rows, []report.Text{{S: lever.Name}, {S: strings.Join(found, "; ")}})
		}
	}
	return t
}
