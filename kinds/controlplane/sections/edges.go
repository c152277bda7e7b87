package sections

import (
	"fmt"
	"math"
	"strings"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
)

// appliedAt returns when real Envoys had changes in force, NaN without any.
func appliedAt(q record.Quantile) func(c *record.ControlSummary) float64 {
	return func(c *record.ControlSummary) float64 {
		if c.Applied == nil {
			return math.NaN()
		}
		return c.Applied.At(q)
	}
}

// edgesTable has three rows per cell: how long changes take to reach the first proxy, half of the
// proxies, and the last, over the changes of all trials.
func edgesTable(f record.Findings) report.Table {
	t := report.Table{Columns: append(report.FactorColumns(f), report.Column{Head: "acknowledged by"})}
	largest, few, never := 0.0, false, false
	for _, c := range f.Cells {
		if c.Control != nil && c.Control.Edges != nil {
			largest = max(largest, c.Control.Edges.Last.Max(), c.Control.Edges.Last.At(0.5))
		}
	}
	if largest == 0 {
		return report.Table{}
	}
	s := report.ScaleFor("us", largest)
	t.Title = "First, median and last proxy to ACK a change, over changes, " + s.Unit
	var needs []string
	for _, q := range record.WithMax() {
		t.Columns = append(t.Columns, report.Column{Head: q.Head(), Right: true})
		if q.Needs() > 0 {
			needs = append(needs, report.Count(q.Needs())+" for "+q.Head())
		}
	}
	t.Columns = append(t.Columns, report.Column{Head: "changes", Right: true, Keep: 1})
	for _, c := range f.Cells {
		if c.Control == nil || c.Control.Edges == nil {
			continue
		}
		e := c.Control.Edges
		for i, edge := range []struct {
			name string
			us   record.Quantiles
		}{{"the first", e.First}, {"half", e.Median}, {"the last", e.Last}} {
			row := report.FactorTexts(f, c.Cell)
			if i > 0 { // name the cell once
				for k := range row {
					row[k] = report.Text{}
				}
			}
			row = append(row, report.Text{S: edge.name})
			for _, q := range record.WithMax() {
				switch {
				case edge.us.Known(q):
					row = append(row, report.Text{S: s.Plain(edge.us.At(q))})
				case e.Changes < q.Needs():
					row, few = append(row, report.Text{S: "too few", Style: report.StyleDim}), true
				default:
					row, never = append(row, neverReached), true
				}
			}
			t.Rows = append(t.Rows, append(row, report.Text{S: report.Count(e.Changes)}))
		}
	}
	if note := followedNote(f); note != "" {
		t.Notes = append(t.Notes, note)
	}
	if few {
		t.Notes = append(t.Notes, "Too few: a percentile needs enough changes to leave one beyond it ("+strings.Join(needs, ", ")+").")
	}
	if never {
		t.Notes = append(t.Notes, "Not reached: a change that some proxy never acknowledged ranks slowest for the last; one that no proxy did ranks slowest everywhere.")
	}
	return t
}

// appliedBy returns when real Envoys had changes in force, all zero without any.
func appliedBy(c *record.ControlSummary) record.Latency {
	if c.Applied == nil {
		return record.Latency{}
	}
	return *c.Applied
}

// followedNote states how many of the committed changes the figures over changes cover, if not all:
// some show in no proxy's configuration (for example a Gateway alone), or the API server rejected
// them.
func followedNote(f record.Findings) string {
	for _, c := range f.Cells {
		if c.Control == nil || c.Control.Edges == nil || c.Control.Committed <= c.Control.Edges.Changes {
			continue
		}
		return fmt.Sprintf("Changes: those a simulated proxy acknowledged or should have: here %s of %s with %s. Other committed changes reach no proxy (a Gateway without a route, for one). Per-change figures, such as pushes, are divided by all.",
			report.Count(c.Control.Edges.Changes), report.Count(c.Control.Committed), c.Label)
	}
	return ""
}
