package sections

import (
	"fmt"
	"math"

	"github.com/meshtrial/meshtrial/finding"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
	"github.com/meshtrial/meshtrial/study"
)

// waitingTable divides the mean overhead into what requests wait for a CPU of
// this machine, and the rest.
func waitingTable(f record.Findings) report.Table {
	t := report.Table{Columns: report.FactorColumns(f)}
	parts := []struct{ name, head string }{
		{study.FindingMean, "mean overhead"}, {study.FindingWaiting, "waiting for a CPU"}, {study.FindingService, "without the waiting"},
	}
	var found []map[string]record.Finding
	largest := 0.0
	for i, p := range parts {
		m := report.Differences(f, p.name+finding.Overhead)
		if len(m) == 0 {
			return report.Table{}
		}
		found = append(found, m)
		t.Columns = append(t.Columns, report.Column{Head: p.head, Right: true, Keep: 9 - i})
		for _, x := range m {
			largest = math.Max(largest, math.Abs(x.Estimate))
		}
	}
	s := report.ScaleFor("us", largest)
	t.Title = fmt.Sprintf("Waiting for a CPU in the mean latency overhead, %s (95%% interval)", s.Unit)
	for _, c := range f.Cells {
		row, any := report.FactorTexts(f, c.Cell), false
		for _, m := range found {
			x, ok := m[c.Cell.Key()]
			if !ok {
				row = append(row, report.Text{S: "–", Style: report.StyleDim})
				continue
			}
			any = true
			row = append(row, report.Figure(x, s))
		}
		if any {
			t.Rows = append(t.Rows, row)
		}
	}
	t.Notes = append(t.Notes, "Waiting: run-queue wait of the proxies' workers and the workload, per request. It comes from this machine's load, not from the mesh; where CPUs are plenty the last column is left.")
	return t
}

// waitingTold is the share of the mean overhead from which on an answer says what
// of it is waiting for a CPU.
const waitingTold = 0.1

// waitingAnswers says how much of the headline's overhead is waiting for a CPU of
// this machine.
func waitingAnswers(f record.Findings, top record.Cell) []string {
	var of [3]record.Finding
	for i, name := range []string{study.FindingMean, study.FindingWaiting, study.FindingService} {
		for _, x := range report.Differences(f, name+finding.Overhead) {
			if x.Cell.Key() == top.Key() {
				of[i] = x
			}
		}
	}
	mean, waiting, rest := of[0], of[1], of[2]
	if mean.Verdict != record.VerdictReal || waiting.Verdict != record.VerdictReal || mean.Estimate <= 0 || waiting.Estimate < waitingTold*mean.Estimate {
		return nil
	}
	s := report.ScaleOf(mean)
	return []string{fmt.Sprintf("Of the mean overhead of %s, %s (%s) is waiting for a CPU of this machine; %s is left where CPUs are plenty.",
		s.Value(mean.Estimate), s.Value(waiting.Estimate), report.Percent(waiting.Estimate/mean.Estimate), s.Value(rest.Estimate))}
}
