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
	return report.WithRest(controlplane.XDSTypes(), f.Cells, func(c record.CellSummary) []string {
		if c.Control == nil {
			return nil
		}
		return of(c.Control)
	})
}

// bytesTable has a row per cell and a column per resource type.
func bytesTable(f record.Findings, title string, types []string, bytes func(c *record.ControlSummary, kind string) (float64, bool)) report.Table {
	t := report.Table{Columns: report.FactorColumns(f)}
	largest := 0.0
	for _, c := range f.Cells {
		for _, kind := range types {
			if c.Control != nil {
				v, _ := bytes(c.Control, kind)
				largest = math.Max(largest, v)
			}
		}
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
		if c.Control == nil {
			continue
		}
		row, sum := report.FactorTexts(f, c.Cell), 0.0
		for _, kind := range types {
			v, ok := bytes(c.Control, kind)
			if !ok {
				row = append(row, report.Text{S: "–", Style: report.StyleDim})
				continue
			}
			sum += v
			row = append(row, report.Text{S: s.Plain(v)})
		}
		all := report.Text{S: s.Plain(sum)}
		if sum == 0 {
			all = report.Text{S: "–", Style: report.StyleDim}
		}
		t.Rows = append(t.Rows, append(row, all))
	}
	return t
}

// wireTable lists what proxies received per change, by type.
func wireTable(f record.Findings) report.Table {
	types := typesOf(f, func(c *record.ControlSummary) []string {
		return slices.DeleteFunc(slices.Sorted(maps.Keys(c.Wire)), func(kind string) bool { return c.Wire[kind].Bytes == 0 })
	})
	return bytesTable(f, "Bytes received per change by all proxies, %s by type", types, func(c *record.ControlSummary, kind string) (float64, bool) {
		w, ok := c.Wire[kind]
		return float64(w.Bytes) / math.Max(1, float64(c.Committed)), ok
	})
}

// configTable lists the size of a proxy's configuration by type.
func configTable(f record.Findings) report.Table {
	types := typesOf(f, func(c *record.ControlSummary) []string {
		return slices.DeleteFunc(slices.Sorted(maps.Keys(c.ConfigBytes)), func(kind string) bool { return c.ConfigBytes[kind] == 0 })
	})
	return bytesTable(f, "Configuration of a proxy (median), %s by type", types, func(c *record.ControlSummary, kind string) (float64, bool) {
		v, ok := c.ConfigBytes[kind]
		return float64(v), ok
	})
}

// scopeConfigTable lists the same for proxies in the namespace of a Sidecar of scope namespace.
func scopeConfigTable(f record.Findings) report.Table {
	types := typesOf(f, func(c *record.ControlSummary) []string {
		return slices.DeleteFunc(slices.Sorted(maps.Keys(c.ScopeConfigBytes)), func(kind string) bool { return c.ScopeConfigBytes[kind] == 0 })
	})
	return bytesTable(f, "Configuration of a proxy in the scope's namespace (median), %s by type", types, func(c *record.ControlSummary, kind string) (float64, bool) {
		v, ok := c.ScopeConfigBytes[kind]
		return float64(v), ok
	})
}

// joinTable lists how a new proxy in that namespace gets its configuration.
func joinTable(f record.Findings) report.Table {
	columns := []valueColumn{
		{"first request to last response", "join_time", 9, func(c *record.ControlSummary) float64 { return c.JoinUS }},
		{"received", "join_bytes", 8, func(c *record.ControlSummary) float64 {
			sum := int64(0)
			for _, bytes := range c.JoinBytes {
				sum += bytes
			}
			return float64(sum)
		}},
	}
	for i, kind := range []string{"cds", "eds", "lds", "rds", "nds"} {
		columns = append(columns, valueColumn{kind, "join_bytes_" + kind, 7 - i, func(c *record.ControlSummary) float64 { return float64(c.JoinBytes[kind]) }})
	}
	return valueTable(f, "A new proxy joins in the scope's namespace (95% interval)", columns)
}
