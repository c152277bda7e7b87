package sections

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
)

// figureTable has a row per cell and a column per finding.
func figureTable(f record.Findings, title string, columns report.FigureColumns) report.Table {
	return report.FigureTable(f, title, columns, func(name string, c record.CellSummary) report.Text {
		if tooFewPairs(name, c) {
			return tooFewChanges
		}
		return report.Dash
	})
}

// noted adds notes below a table that has rows.
func noted(t report.Table, notes ...string) report.Table {
	if len(t.Rows) > 0 {
		t.Notes = append(t.Notes, notes...)
	}
	return t
}

// figures returns a section with one table of figures, with notes below it.
func figures(name, title string, columns report.FigureColumns, notes ...string) report.Section {
	return report.One(name, func(f record.Findings) report.Table { return noted(figureTable(f, title, columns), notes...) })
}

// convergenceTable has a row per cell: how long a change takes to reach the proxies, and the
// difference from its baseline.
func convergenceTable(f record.Findings) report.Table {
	t := figureTable(f, "Convergence by cell: from commit to proxy ACK (95% interval)", report.FigureColumns{
		{"p50", "convergence_p50", 9}, {"p99", "convergence_p99", 8}, {"p99.9", "convergence_p999", 1}, {"max", "convergence_max", 4},
		{"first proxy", "convergence_first", 3}, {"last proxy", "convergence_last", 6},
		{"active in Envoy p50", "applied_p50", 3}, {"p99", "applied_p99", 1}, {"max", "applied_max", 1},
	})
	if len(t.Rows) == 0 {
		return t
	}
	t.Columns = append(t.Columns, report.Column{Head: "changes", Right: true, Keep: 2}, report.Column{Head: "never seen", Right: true, Keep: 7}, report.Column{Head: "valid", Right: true, Keep: 5})
	for i, c := range f.Cells {
		s, never := c.Control, report.Text{S: "none"}
		if s.Missed > 0 {
			never = report.Text{S: report.Count(s.Missed) + " of " + report.Count(s.Missed+s.Pairs), Style: report.StyleBad}
		}
		valid := report.Text{S: fmt.Sprintf("%d/%d", c.Valid, c.Trials)}
		if c.Valid < c.Trials {
			valid.Style = report.StyleBad
		}
		t.Rows[i] = append(t.Rows[i], report.Text{S: report.Count(s.Committed)}, never, valid)
	}
	t.Notes = append(t.Notes, pairsNote(f), "First and last proxy: medians over changes, equally weighted. Never seen: change-proxy pairs where the proxy needed the change and never got it.")
	return t
}

// leversTable lists each cell's relative changes against its baseline.
func leversTable(f record.Findings) report.Table {
	columns := report.FigureColumns{
		{"p50", "convergence_p50_overhead", 9}, {"p99", "convergence_p99_overhead", 6}, {"pushes", "pushes_overhead", 8},
		{"bytes per change", "push_bytes_per_change_overhead", 7}, {"configuration", "config_bytes_overhead", 4},
		{"istiod CPU per change", "istiod_cpu_per_change_overhead", 5}, {"istiod memory", "istiod_memory_overhead", 2},
		{"stale proxy-seconds", "stale_proxy_seconds_per_change_overhead", 1},
		{"idle sidecar's CPU", "sidecar_cpu_idle_overhead", 9}, {"with changes", "sidecar_cpu_changing_overhead", 8},
		{"CPU per change", "sidecar_cpu_per_change_overhead", 6}, {"idle sidecar's memory", "sidecar_memory_idle_overhead", 8}, {"after changes", "sidecar_memory_changing_overhead", 3},
		{"p99 without a stream", "without_p99_overhead", 9}, {"p99 proxy back", "recovery_p99_overhead", 6}, {"last proxy back", "recovery_last_overhead", 9}, {"peak memory", "istiod_memory_peak_overhead", 5}, {"fullest replica", "connection_imbalance_overhead", 7},
		{"requests to stale endpoints", "phantom_requests_overhead", 6}, {"failed there", "phantom_failures_overhead", 6},
	}
	t := report.Table{Title: "Against the baseline (95% interval)", Columns: report.FactorColumns(f)}
	var found []map[string]record.Finding
	for _, c := range columns {
		if m := report.Differences(f, c.Name); slices.ContainsFunc(slices.Collect(maps.Values(m)), func(x record.Finding) bool { return x.Verdict != record.VerdictInvalid }) {
			found = append(found, m)
			t.Columns = append(t.Columns, report.Column{Head: c.Head, Right: true, Keep: c.Keep})
		}
	}
	for _, c := range f.Cells {
		row, any := report.FactorTexts(f, c.Cell), false
		for _, m := range found {
			x, ok := m[c.Cell.Key()]
			any = any || ok && x.Verdict != record.VerdictInvalid
			switch {
			case ok && x.Verdict == record.VerdictInvalid && x.Reason == record.ReasonTooFew:
				row = append(row, tooFewChanges)
			case ok && x.Verdict == record.VerdictInvalid && x.Reason == record.ReasonNotReached:
				row = append(row, neverReached)
			default:
				row = append(row, change(x, ok))
			}
		}
		if any {
			t.Rows = append(t.Rows, row)
		}
	}
	return noted(t, "?: inconclusive; the interval includes zero, identical baselines differ by as much, or of so many differences some exclude zero by chance; see the warnings.")
}

// change formats a difference as a share of the baseline's own value.
func change(x record.Finding, ok bool) report.Text {
	switch {
	case !ok:
		return report.Dash
	case x.Verdict == record.VerdictInvalid:
		return report.Text{S: "not valid", Style: report.StyleDim}
	case x.Relative == nil:
		s := report.ScaleOf(x)
		return report.Text{S: s.Quantity(x.Estimate, x.Low, x.High)}
	}
	out := report.Relative(x)
	if x.Verdict == record.VerdictInconclusive {
		return report.Text{S: out.S + " ?", Style: report.StyleDim}
	}
	return out
}

// hiddenTable compares istiod's own indicator with measurements.
func hiddenTable(f record.Findings) report.Table {
	t := figureTable(f, "p99 convergence: pilot_proxy_convergence_time vs. commit-to-ACK (95% interval)", report.FigureColumns{
		{"istiod says", "reported_convergence_p99", 8}, {"commit to ACK", "convergence_p99", 9}, {"hidden", "hidden_convergence_p99", 7},
	})
	if len(t.Columns) < len(report.FactorColumns(f))+3 {
		return report.Table{}
	}
	return t
}

// edgesTable lists how long changes take to reach the first proxy, half of the proxies, and the
// last, over changes.
func edgesTable(f record.Findings) report.Table {
	var columns report.FigureColumns
	for _, edge := range []struct{ name, head string }{{"first", "first proxy"}, {"median", "half"}, {"last", "last proxy"}} {
		for i, q := range record.WithMax() {
			column := struct {
				Head, Name string
				Keep       int
			}{edge.head + " " + q.Head(), "convergence_" + edge.name + "_" + q.Name(), max(1, 5-i)} // 0 keeps a column at any width
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

// Placeholders for a percentile without a figure: either there are too few changes, and more would
// give one, or it lies among changes that never arrived.
var (
	tooFewChanges = report.Text{S: "too few changes", Style: report.StyleDim}
	neverReached  = report.Text{S: "not reached", Style: report.StyleDim}
)

// tooFewPairs reports whether a cell lacks a percentile because its pairs of a change and a proxy
// leave none beyond it.
func tooFewPairs(name string, c record.CellSummary) bool {
	if c.Valid == 0 {
		return false
	}
	for _, q := range record.Percentiles() {
		if q.Needs() == 0 {
			continue
		}
		switch name {
		case "convergence_" + q.Name():
			return c.Control.Acknowledged > 0
		case "applied_" + q.Name():
			return c.Control.Applied != nil
		}
	}
	return false
}

// unreached reports whether a difference is invalid because there are too few changes, or too many
// that never arrived.
func unreached(x record.Finding) bool {
	return x.Reason == record.ReasonTooFew || x.Reason == record.ReasonNotReached
}

// pairsNote describes the basis of percentiles over pairs: the cells' numbers of pairs and changes,
// and the numbers required.
func pairsNote(f record.Findings) string {
	low, high, few, many := int64(math.MaxInt64), int64(0), math.MaxInt, 0
	for _, c := range f.Cells {
		if c.Control.Followed == 0 || c.Control.Trials == 0 {
			continue
		}
		pairs, changes := c.Control.Acknowledged/int64(c.Control.Trials), c.Control.Followed/c.Control.Trials
		low, high = min(low, pairs), max(high, pairs)
		few, many = min(few, changes), max(many, changes)
	}
	const rule = "a percentile needs enough pairs per trial to leave one beyond it (100 for p99, 1,000 for p99.9), and gains precision with the number of changes"
	if many == 0 {
		return "p50 to max are over change-proxy pairs: " + rule + "."
	}
	return fmt.Sprintf("p50 to max are over change-proxy pairs, %s from %s per trial: %s.", span(low, high), span(int64(few), int64(many))+" changes", rule)
}

// span formats a range of counts: "40–140", or "40".
func span(low, high int64) string {
	if low == high {
		return report.Count(low)
	}
	return report.Count(low) + "–" + report.Count(high)
}
