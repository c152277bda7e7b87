package sections

import (
	"cmp"
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
	var medians []float64
	for _, c := range f.Cells {
		if c.Valid > 0 {
			medians = append(medians, c.Intended.At(0.5))
		}
	}
	s := report.ScaleFor("us", medians...)
	t := report.Table{Title: "Latency by cell, " + s.Unit + ", from intended send time"}
	t.Columns = report.FactorColumns(f)
	for _, q := range record.Percentiles() {
		t.Columns = append(t.Columns, right(q.Head(), cmp.Or(keepLatency[q], 4)))
	}
	findings := report.Differences(f, overheadP50)
	if len(findings) > 0 {
		t.Columns = append(t.Columns, right("p50 overhead (95% interval)", 0), right("of baseline", 2), report.Column{Head: "verdict", Keep: 8})
	}
	t.Columns = append(t.Columns, right("valid", 3), right("requests", 1))
	failed, unfinished := int64(0), int64(0)
	for _, c := range f.Cells {
		row := report.FactorTexts(f, c.Cell)
		for _, q := range record.Percentiles() {
			us := c.Intended.At(q)
			switch {
			case slices.Contains(c.NotReached, q.Name()):
				row = append(row, report.Text{S: "not reached", Style: report.StyleBad})
			case c.Valid == 0 || us == 0:
				row = append(row, report.Dash)
			default:
				row = append(row, report.Text{S: s.Plain(us)})
			}
		}
		switch x, ok := findings[c.Cell.Key()]; {
		case len(findings) == 0:
		case c.Baseline:
			row = append(row, report.Text{S: "baseline", Style: report.StyleDim}, report.Text{}, report.Text{})
		case !ok:
			row = append(row, report.Dash, report.Text{}, report.Text{})
		default:
			row = append(row, report.Figure(x, s), report.Relative(x), report.Verdict(x.Verdict))
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

// keepLatency has the priorities of percentiles' columns in a narrow table, other than 4.
var keepLatency = map[record.Quantile]int{0.5: 9, 0.99: 6, 0.999: 5}

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
	var columns []differenceColumn
	for _, q := range record.Percentiles()[1:] {
		columns = append(columns, differenceColumn{"latency_" + q.Name(), q.Head()})
	}
	doubt := false
	t := differenceTable(f, "Tail latency overhead, %s (95%% interval)", columns, func(x record.Finding, s report.Scale) report.Text {
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

type differenceColumn struct{ measure, head string }

// differenceTable has a row for each cell that differs from its baseline in one of some measures of
// latency, and a column for each that the run has. title has a place for the unit.
func differenceTable(f record.Findings, title string, columns []differenceColumn, figure func(record.Finding, report.Scale) report.Text) report.Table {
	t := report.Table{Columns: report.FactorColumns(f)}
	var found []map[string]record.Finding
	var estimates []float64
	for _, c := range columns {
		of := report.Differences(f, c.measure+finding.Overhead)
		if len(of) == 0 {
			continue
		}
		found = append(found, of)
		t.Columns = append(t.Columns, right(c.head, 9-len(found)))
		for _, x := range of {
			estimates = append(estimates, x.Estimate)
		}
	}
	s := report.ScaleFor("us", estimates...)
	t.Title = fmt.Sprintf(title, s.Unit)
	for _, c := range f.Cells {
		row, any := report.FactorTexts(f, c.Cell), false
		for _, of := range found {
			text := report.Dash
			if x, ok := of[c.Cell.Key()]; ok {
				text, any = figure(x, s), true
			}
			row = append(row, text)
		}
		if any {
			t.Rows = append(t.Rows, row)
		}
	}
	return t
}
