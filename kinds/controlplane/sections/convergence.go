package sections

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
)

// valueColumn is a column that shows a finding of each cell. If it has no interval for lack of
// blocks, sum gives the value over all trials; nil for none.
type valueColumn struct {
	head, name string
	keep       int
	sum        func(c *record.ControlSummary) float64
}

// single returns a cell's value if its finding has none for lack of blocks, and false if no trial
// is valid.
func (v valueColumn) single(c record.CellSummary) (float64, bool) {
	if v.sum == nil || c.Control == nil || c.Valid == 0 {
		return 0, false
	}
	value := v.sum(c.Control)
	return value, !math.IsNaN(value) && !math.IsInf(value, 0)
}

// figure returns what the column shows for a cell, in its unit, and false if it shows words.
func (v valueColumn) figure(x record.Finding, c record.CellSummary) (float64, bool) {
	switch {
	case x.Verdict != record.VerdictInvalid:
		return x.Estimate, true
	case x.Reason == record.ReasonNotReached:
		return 0, false
	}
	return v.single(c)
}

// valueTable has a row per cell and a column per finding. Each column has one unit, which its
// header names if the column has a figure. Columns that no cell has are omitted, as are all rows if
// no column is left.
func valueTable(f record.Findings, title string, columns []valueColumn) report.Table {
	t := report.Table{Title: title, Columns: report.FactorColumns(f)}
	plain := report.OwnValues(f)
	var shown []valueColumn
	var scales []report.Scale
	for _, c := range columns {
		largest, unit, empty := 0.0, "", true
		for _, cell := range f.Cells {
			x, ok := plain[c.name+"\x00"+cell.Cell.Key()]
			if !ok {
				continue
			}
			unit = x.Unit
			if v, ok := c.figure(x, cell); ok {
				largest, empty = math.Max(largest, math.Abs(v)), false
			}
		}
		if unit == "" {
			continue
		}
		s := report.ScaleFor(unit, largest)
		head, named := c.head, strings.TrimSuffix(s.Unit, " per change")
		switch {
		case empty:
		case named != "" && named != unit:
			head += ", " + named
		case unit == "cores":
			head += ", cores"
		}
		shown, scales = append(shown, c), append(scales, s)
		t.Columns = append(t.Columns, report.Column{Head: head, Right: true, Keep: c.keep})
	}
	if len(shown) == 0 {
		return t
	}
	for _, cell := range f.Cells {
		row := report.FactorTexts(f, cell.Cell)
		for i, c := range shown {
			x, ok := plain[c.name+"\x00"+cell.Cell.Key()]
			single, okSingle := c.single(cell)
			switch {
			case !ok && tooFewPairs(c.name, cell):
				row = append(row, tooFewChanges)
			case !ok:
				row = append(row, report.Text{S: "–", Style: report.StyleDim})
			case x.Verdict == record.VerdictInconclusive:
				row = append(row, report.Text{S: report.Figure(x, scales[i]).S + " ?", Style: report.StyleDim})
			case x.Verdict == record.VerdictInvalid && x.Reason == record.ReasonNotReached:
				row = append(row, report.Figure(x, scales[i]))
			case x.Verdict != record.VerdictInvalid && report.OneValue(x.Low, x.High):
				row = append(row, report.Text{S: scales[i].Plain(x.Estimate) + report.AllSame})
			case x.Verdict == record.VerdictInvalid && okSingle:
				row = append(row, report.Text{S: scales[i].Plain(single)})
			default:
				row = append(row, report.Figure(x, scales[i]))
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// convergenceTable has a row per cell: how long a change takes to reach the proxies, and the
// difference from its baseline.
func convergenceTable(f record.Findings) report.Table {
	t := valueTable(f, "Convergence by cell: from commit to proxy ACK (95% interval)", []valueColumn{
		{"p50", "convergence_p50", 9, func(c *record.ControlSummary) float64 { return c.Convergence.At(0.5) }},
		{"p99", "convergence_p99", 8, pairsReach(0.99)},
		{"p99.9", "convergence_p999", 1, pairsReach(0.999)},
		{"max", "convergence_max", 4, func(c *record.ControlSummary) float64 { return c.Convergence.Max() }},
		{"first proxy", "convergence_first", 3, func(c *record.ControlSummary) float64 { return known(c.FirstUS) }},
		{"last proxy", "convergence_last", 6, func(c *record.ControlSummary) float64 { return known(c.LastUS) }},
		{"active in Envoy p50", "applied_p50", 3, appliedAt(0.5)},
		{"p99", "applied_p99", 1, nil},
		{"max", "applied_max", 1, appliedAt(1)},
	})
	if len(t.Rows) == 0 {
		return t
	}
	t.Columns = append(t.Columns, report.Column{Head: "changes", Right: true, Keep: 2}, report.Column{Head: "never seen", Right: true, Keep: 7}, report.Column{Head: "valid", Right: true, Keep: 5})
	for i, c := range f.Cells {
		never := report.Text{S: "–", Style: report.StyleDim}
		changes := never
		if s := c.Control; s != nil {
			changes, never = report.Text{S: report.Count(s.Committed)}, report.Text{S: "none"}
			if s.Missed > 0 {
				never = report.Text{S: report.Count(s.Missed) + " of " + report.Count(s.Missed+s.Pairs), Style: report.StyleBad}
			}
		}
		valid := report.Text{S: fmt.Sprintf("%d/%d", c.Valid, c.Trials)}
		if c.Valid < c.Trials {
			valid.Style = report.StyleBad
		}
		t.Rows[i] = append(t.Rows[i], changes, never, valid)
	}
	t.Notes = append(t.Notes, pairsNote(f), "First and last proxy: medians over changes, equally weighted. Never seen: change-proxy pairs where the proxy needed the change and never got it.")
	t.Notes = append(t.Notes, simulatorsNote(f)...)
	return t
}

// simulatorsNote states the number of simulator pods, if a cell had several.
func simulatorsNote(f record.Findings) []string {
	var pods []int
	for _, c := range f.Cells {
		pods = append(pods, controlplane.SimulatorsIn(c.Cell))
	}
	slices.Sort(pods)
	pods = slices.Compact(pods)
	if len(pods) == 0 || pods[len(pods)-1] == 1 {
		return nil
	}
	var of []string
	for _, n := range pods {
		of = append(of, strconv.Itoa(n))
	}
	where := words.Plural(pods[0], "pod")
	if len(pods) > 1 {
		where = words.List(of) + " pods, by cell"
	}
	return []string{"Simulated proxies: in " + where + ". Those of several pods are taken together, by the first one's clock; the machine's state is that of its node."}
}

// known returns NaN for an absent value, which is recorded as 0.
func known(v float64) float64 {
	if v <= 0 {
		return math.NaN()
	}
	return v
}

// leversTable lists each cell's relative changes against its baseline.
func leversTable(f record.Findings) report.Table {
	columns := []valueColumn{
		{"p50", "convergence_p50_overhead", 9, nil}, {"p99", "convergence_p99_overhead", 6, nil}, {"pushes", "pushes_overhead", 8, nil},
		{"bytes per change", "push_bytes_per_change_overhead", 7, nil}, {"configuration", "config_bytes_overhead", 4, nil},
		{"istiod CPU per change", "istiod_cpu_per_change_overhead", 5, nil}, {"istiod memory", "istiod_memory_overhead", 2, nil},
		{"stale proxy-seconds", "stale_proxy_seconds_per_change_overhead", 1, nil},
		{"idle sidecar's CPU", "sidecar_cpu_idle_overhead", 9, nil}, {"with changes", "sidecar_cpu_changing_overhead", 8, nil},
		{"CPU per change", "sidecar_cpu_per_change_overhead", 6, nil}, {"idle sidecar's memory", "sidecar_memory_idle_overhead", 8, nil}, {"after changes", "sidecar_memory_changing_overhead", 3, nil},
		{"p99 without a stream", "without_p99_overhead", 9, nil}, {"p99 proxy back", "recovery_p99_overhead", 6, nil}, {"last proxy back", "recovery_last_overhead", 9, nil}, {"peak memory", "istiod_memory_peak_overhead", 5, nil}, {"fullest replica", "connection_imbalance_overhead", 7, nil},
		{"requests to stale endpoints", "phantom_requests_overhead", 6, nil}, {"failed there", "phantom_failures_overhead", 6, nil},
	}
	t := report.Table{Title: "Against the baseline (95% interval)", Columns: report.FactorColumns(f)}
	var found []map[string]record.Finding
	for _, c := range columns {
		if m := report.Differences(f, c.name); slices.ContainsFunc(slices.Collect(maps.Values(m)), func(x record.Finding) bool { return x.Verdict != record.VerdictInvalid }) {
			found = append(found, m)
			t.Columns = append(t.Columns, report.Column{Head: c.head, Right: true, Keep: c.keep})
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
	if len(t.Rows) > 0 {
		t.Notes = append(t.Notes, "?: inconclusive; the interval includes zero, identical baselines differ by as much, or of so many differences some exclude zero by chance; see the warnings.")
	}
	return t
}

// change formats a difference as a share of the baseline's own value.
func change(x record.Finding, ok bool) report.Text {
	switch {
	case !ok:
		return report.Text{S: "–", Style: report.StyleDim}
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
	t := valueTable(f, "p99 convergence: pilot_proxy_convergence_time vs. commit-to-ACK (95% interval)", []valueColumn{
		{"istiod says", "reported_convergence_p99", 8, reportedP99},
		{"commit to ACK", "convergence_p99", 9, pairsReach(0.99)},
		{"hidden", "hidden_convergence_p99", 7, func(c *record.ControlSummary) float64 {
			return pairsReach(0.99)(c) - reportedP99(c)
		}},
	})
	if len(t.Columns) < len(report.FactorColumns(f))+3 {
		return report.Table{}
	}
	if note := firstBucketNote(f); note != "" {
		t.Notes = append(t.Notes, note)
	}
	return t
}

// firstBucketNote states in how many trials istiod's own figure lies in the first bucket of its
// histogram, and where; "" for none.
func firstBucketNote(f record.Findings) string {
	first, all := 0, 0
	var not []string // cells with other trials
	for _, c := range f.Cells {
		k := c.Control
		if k == nil || k.ReportedTrials == 0 {
			continue
		}
		first, all = first+k.ReportedFirstTrials, all+k.ReportedTrials
		if others := k.ReportedTrials - k.ReportedFirstTrials; others > 0 {
			not = append(not, fmt.Sprintf("%d of %d with %s", others, k.ReportedTrials, c.Label))
		}
	}
	const line = "is interpolated between 0 and 100 ms and only says \"below\""
	switch {
	case first == 0:
		return ""
	case first == all:
		return fmt.Sprintf("In all %d trials istiod's figure falls into the first histogram bucket: it %s.", all, line)
	}
	where := ""
	if len(not) <= report.MaxNamedCells {
		where = " (not in " + strings.Join(not, ", ") + ")"
	}
	return fmt.Sprintf("In %d of %d trials%s istiod's figure falls into the first histogram bucket and %s; in the others it is interpolated just as coarsely across a later one.", first, all, where, line)
}

// reportedP99 returns istiod's own 99th percentile, NaN if it has none.
func reportedP99(c *record.ControlSummary) float64 {
	if c.ReportedP99US == nil {
		return math.NaN()
	}
	return *c.ReportedP99US
}

// amplificationTable lists the work caused by a change.
func amplificationTable(f record.Findings) report.Table {
	return valueTable(f, "Push amplification (95% interval)", []valueColumn{
		{"pushes", "pushes", 7, pushesOf},
		{"pushes per change", "pushes_per_change", 9, func(c *record.ControlSummary) float64 { return pushesOf(c) * float64(c.Trials) / float64(c.Committed) }},
		{"received per change", "push_bytes_per_change", 8, func(c *record.ControlSummary) float64 { return wireOf(c).bytes / float64(c.Committed) }},
		{"identical", "identical_share", 6, func(c *record.ControlSummary) float64 { return wireOf(c).identical / wireOf(c).bytes }},
	})
}

// staleTable lists how long proxies held removed endpoints.
func staleTable(f record.Findings) report.Table {
	return valueTable(f, "How long proxies kept stale endpoints, summed over proxies (95% interval)", []valueColumn{
		{"for each change", "stale_proxy_seconds_per_change", 9, func(c *record.ControlSummary) float64 { return 1e6 * c.StaleProxySeconds / float64(c.Committed) }},
	})
}

// pushesOf returns a trial's pushes, NaN if istiod counts none.
func pushesOf(c *record.ControlSummary) float64 {
	if len(c.Pushes) == 0 {
		return math.NaN()
	}
	sum := 0.0
	for _, kind := range slices.Sorted(maps.Keys(c.Pushes)) {
		sum += c.Pushes[kind]
	}
	return sum
}

// wireOf returns the bytes received, over all types.
func wireOf(c *record.ControlSummary) (sum struct{ bytes, identical float64 }) {
	for _, w := range c.Wire {
		sum.bytes += float64(w.Bytes)
		sum.identical += float64(w.IdenticalBytes)
	}
	return sum
}
