package sections

import (
	"fmt"
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/report"
)

// latencyTable has a row per cell: percentiles from intended send time, and the difference from its
// baseline at the median.
func latencyTable(f record.Findings) report.Table {
	largest := 0.0
	for _, c := range f.Cells {
		if c.Valid > 0 {
			largest = math.Max(largest, c.Intended.At(0.5))
		}
	}
	s := report.ScaleFor("us", largest)
	t := report.Table{Title: "Latency by cell, " + s.Unit + ", from intended send time"}
	t.Columns = report.FactorColumns(f)
	for _, q := range record.Percentiles() {
		t.Columns = append(t.Columns, report.Column{Head: q.Head(), Right: true, Keep: keepLatency(q)})
	}
	findings := report.Differences(f, overheadP50)
	if len(findings) > 0 {
		t.Columns = append(t.Columns, report.Column{Head: "p50 overhead (95% interval)", Right: true}, report.Column{Head: "of baseline", Right: true, Keep: 2}, report.Column{Head: "verdict", Keep: 8})
	}
	t.Columns = append(t.Columns, report.Column{Head: "valid", Right: true, Keep: 3}, report.Column{Head: "requests", Right: true, Keep: 1})
	failed, unfinished := int64(0), int64(0)
	for _, c := range f.Cells {
		row := report.FactorTexts(f, c.Cell)
		for _, q := range record.Percentiles() {
			us := c.Intended.At(q)
			switch {
			case slices.Contains(c.NotReached, q.Name()):
				row = append(row, report.Text{S: "not reached", Style: report.StyleBad})
			case c.Valid == 0 || us == 0:
				row = append(row, report.Text{S: "–", Style: report.StyleDim})
			default:
				row = append(row, report.Text{S: s.Plain(us)})
			}
		}
		if len(findings) > 0 {
			finding, ok := findings[c.Cell.Key()]
			switch {
			case c.Baseline:
				row = append(row, report.Text{S: "baseline", Style: report.StyleDim}, report.Text{}, report.Text{})
			case !ok:
				row = append(row, report.Text{S: "–", Style: report.StyleDim}, report.Text{}, report.Text{})
			default:
				row = append(row, report.Figure(finding, s), report.Relative(finding), report.Verdict(finding.Verdict))
			}
		}
		valid := report.Text{S: fmt.Sprintf("%d/%d", c.Valid, c.Trials)}
		if c.Valid < c.Trials {
			valid.Style = report.StyleBad
		}
		row = append(row, valid, report.Text{S: report.Count(c.Requests)})
		t.Rows = append(t.Rows, row)
		failed, unfinished = failed+c.Failed, unfinished+c.Unfinished
	}
	if failed+unfinished > 0 {
		t.Notes = append(t.Notes, lostWords(failed, unfinished)+"; they count as infinitely late in every percentile.")
	}
	if len(findings) > 0 {
		t.Notes = append(t.Notes, overheadNote(f, overheadP50))
	}
	return t
}

// keepLatency returns the priority of a percentile's column in a narrow table.
func keepLatency(q record.Quantile) int {
	switch q {
	case 0.5:
		return 9
	case 0.99:
		return 6
	case 0.999:
		return 5
	}
	return 4
}

// lostWords states the numbers of failed and unfinished requests.
func lostWords(failed, unfinished int64) string {
	switch {
	case unfinished == 0:
		return words.Plural(failed, "request") + " failed"
	case failed == 0:
		return words.Plural(unfinished, "request") + " did not end"
	}
	return fmt.Sprintf("%s failed and %s did not end", words.Plural(failed, "request"), report.Count(unfinished))
}

// overheadNote explains overhead intervals once.
func overheadNote(f record.Findings, name string) string {
	blocks, low := 0, math.MaxInt
	for _, x := range f.Findings {
		if x.Name == name {
			blocks, low = max(blocks, x.Blocks), min(low, x.Blocks)
		}
	}
	n := words.Plural(blocks, "block")
	if low < blocks {
		n = fmt.Sprintf("%d to %s", low, n)
	}
	return "Overhead is the within-block difference over " + n + "; \"no effect\": the whole interval lies within the study's margin."
}

// overheadTable lists what cells add at the other percentiles.
func overheadTable(f record.Findings) report.Table {
	var found []map[string]record.Finding
	t := report.Table{Columns: report.FactorColumns(f)}
	largest := 0.0
	for _, q := range record.Percentiles()[1:] {
		m := report.Differences(f, "latency_"+q.Name()+finding.Overhead)
		if len(m) == 0 {
			continue
		}
		found = append(found, m)
		t.Columns = append(t.Columns, report.Column{Head: q.Head(), Right: true, Keep: 9 - len(found)})
		for _, x := range m {
			largest = math.Max(largest, math.Abs(x.Estimate))
		}
	}
	s := report.ScaleFor("us", largest)
	t.Title = "Tail latency overhead, " + s.Unit + " (95% interval)"
	doubt := false
	t.Rows = differenceRows(f, found, func(x record.Finding) report.Text {
		cell := report.Figure(x, s)
		if x.Verdict == record.VerdictInconclusive {
			cell.S, doubt = cell.S+" ?", true
		}
		return cell
	})
	if doubt {
		t.Notes = append(t.Notes, report.DoubtNote)
	}
	return t
}

// differenceRows has a row for each cell that differs from its baseline in any of some findings,
// which are given by cell, and a column for each finding.
func differenceRows(f record.Findings, found []map[string]record.Finding, say func(record.Finding) report.Text) (rows [][]report.Text) {
	for _, c := range f.Cells {
		row, any := report.FactorTexts(f, c.Cell), false
		for _, m := range found {
			x, ok := m[c.Cell.Key()]
			any = any || ok
			if ok {
				row = append(row, say(x))
			} else {
				row = append(row, report.Text{S: "–", Style: report.StyleDim})
			}
		}
		if any {
			rows = append(rows, row)
		}
	}
	return rows
}
