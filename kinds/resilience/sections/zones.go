package sections

import (
	"maps"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
)

// zoneTable lists which zones answered calls, window by window.
func zoneTable(f record.Findings) report.Table {
	t := report.Table{Title: "Calls by zone", Columns: append(report.FactorColumns(f), report.Column{Head: "window"}, report.Column{Head: "calls", Right: true, Keep: 7}, report.Column{Head: "left their zone", Right: true, Keep: 9}, report.Column{Head: "answered by", Keep: 8})}
	share := func(n, of int64) string { return report.Fixed(100*float64(n)/float64(max(of, 1)), 1) + "%" }
	for _, c := range judged(f) {
		s := c.Scenario
		if s.Shown == "" || s.Total.Zoned == 0 {
			continue
		}
		for _, w := range append(slices.Clone(s.Windows), s.Total) {
			var by []string
			for _, zone := range slices.Sorted(maps.Keys(w.Zones)) {
				by = append(by, zone+" "+share(w.Zones[zone], w.Zoned))
			}
			t.Rows = append(t.Rows, append(report.FactorTexts(f, c.Cell), report.Text{S: w.Name}, report.Text{S: report.Count(w.Zoned)}, report.Text{S: share(w.CrossZone, w.Zoned)}, report.Text{S: strings.Join(by, ", ")}))
		}
	}
	if len(t.Rows) > 0 {
		t.Notes = append(t.Notes, "Answered calls, by the zone of the endpoint and that of the calling proxy.")
	}
	return t
}
