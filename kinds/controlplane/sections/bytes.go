package sections

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
)

// typesOf lists the resource types of all cells, in istiod's order.
func typesOf(f record.Findings, of func(*record.ControlSummary) []string) []string {
	return report.WithRest(controlplane.XDSTypes(), f.Cells, func(c record.CellSummary) []string { return of(c.Control) })
}

// bytesTable has a row per cell and a column per resource type.
func bytesTable(f record.Findings, title string, of func(c *record.ControlSummary) map[string]float64) report.Table {
	t := report.Table{Columns: report.FactorColumns(f)}
	types := typesOf(f, func(c *record.ControlSummary) []string {
		bytes := of(c)
		return slices.DeleteFunc(slices.Sorted(maps.Keys(bytes)), func(kind string) bool { return bytes[kind] == 0 })
	})
	largest := 0.0
	for _, c := range f.Cells {
		largest = slices.Max(append(slices.Collect(maps.Values(of(c.Control))), largest))
	}
	if largest == 0 {
		return t
	}
	s := report.ScaleFor("bytes", largest)
	t.Title = fmt.Sprintf(title, s.Unit)
	for i, kind := range types {
		t.Columns = append(t.Columns, report.Column{Head: kind, Right: true, Keep: max(1, 8-i)})
	}
	t.Columns = append(t.Columns, report.Column{Head: "all", Right: true, Keep: 9})
	for _, c := range f.Cells {
		row, sum, bytes := report.FactorTexts(f, c.Cell), 0.0, of(c.Control)
		for _, kind := range types {
			text := report.Dash
			if v, ok := bytes[kind]; ok {
				text, sum = report.Text{S: s.Plain(v)}, sum+v
			}
			row = append(row, text)
		}
		all := report.Dash
		if sum > 0 {
			all = report.Text{S: s.Plain(sum)}
		}
		t.Rows = append(t.Rows, append(row, all))
	}
	return t
}

// wireTable lists what proxies received per change, by type.
func wireTable(f record.Findings) report.Table {
	return bytesTable(f, "Bytes received per change by all proxies, %s by type", func(c *record.ControlSummary) map[string]float64 {
		out := map[string]float64{}
		for kind, w := range c.Wire {
			out[kind] = float64(w.Bytes) / math.Max(1, float64(c.Committed))
		}
		return out
	})
}

// sizesTable lists the size of a proxy's configuration by type.
func sizesTable(of func(*record.ControlSummary) map[string]int64, title string) func(record.Findings) report.Table {
	return func(f record.Findings) report.Table {
		return bytesTable(f, title, func(c *record.ControlSummary) map[string]float64 {
			out := map[string]float64{}
			for kind, bytes := range of(c) {
				out[kind] = float64(bytes)
			}
			return out
		})
	}
}

// configOf and scopeConfigOf return a proxy's configuration by type: any proxy's, and that of one in
// the namespace of a Sidecar of scope namespace.
func configOf(c *record.ControlSummary) map[string]int64      { return c.ConfigBytes }
func scopeConfigOf(c *record.ControlSummary) map[string]int64 { return c.ScopeConfigBytes }
