package sections

import (
	"fmt"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
)

// edgesTable lists how long changes take to reach the first proxy, half of the proxies, and the
// last, over changes.
func edgesTable(f record.Findings) report.Table {
	var columns report.FigureColumns
	for _, edge := range []struct{ name, head string }{{"first", "first proxy"}, {"median", "half"}, {"last", "last proxy"}} {
		for i, q := range record.WithMax() {
			column := struct {
				Head, Name string
				Keep       int
			}{edge.head + " " + q.Head(), "convergence_" + edge.name + "_" + q.Name(), 5 - i}
			if q == 0.5 {
				column.Name, column.Keep = "convergence_"+edge.name, 9
			}
			columns = append(columns, column)
		}
	}
	t := figureTable(f, "First, median and last proxy to ACK a change, over changes (95% interval)", columns)
	for _, c := range f.Cells {
		if c.Control.Followed > 0 && c.Control.Committed > c.Control.Followed {
			t.Notes = append(t.Notes, fmt.Sprintf("Changes: those a simulated proxy acknowledged or should have: here %s of %s with %s. Other committed changes reach no proxy (a Gateway without a route, for one). Per-change figures, such as pushes, are divided by all.",
				report.Count(c.Control.Followed), report.Count(c.Control.Committed), c.Label))
			break
		}
	}
	return t
}
