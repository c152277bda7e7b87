package sections

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/report"
	"github.com/meshtrial/meshtrial/study"
)

// waitingTable divides the mean overhead into waiting for a CPU and the rest.
func waitingTable(f record.Findings) report.Table {
	t := report.Table{Columns: report.FactorColumns(f)}
	parts := []struct{ name, head string }{
		{dataplane.FindingMean, "mean overhead"}, {dataplane.FindingWaiting, "waiting for a CPU"}, {dataplane.FindingService, "without the waiting"},
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
	t.Rows = differenceRows(f, found, func(x record.Finding) report.Text { return report.Figure(x, s) })
	t.Notes = append(t.Notes, "Waiting: run-queue wait of the proxies' workers and the workload, per request. Idle CPUs take time to wake up, too: more CPUs would remove only what the machine's load adds (study waiting).")
	return t
}

// waitingTold is the share of the mean overhead from which an answer mentions waiting for a CPU.
const waitingTold = 0.1

// waitingAnswers states how much of the headline's overhead is waiting for a CPU of this machine.
func waitingAnswers(f record.Findings, top record.Cell) []string {
	var of [3]record.Finding
	for i, name := range []string{dataplane.FindingMean, dataplane.FindingWaiting, dataplane.FindingService} {
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
	return []string{fmt.Sprintf("Of the mean overhead of %s, %s (%s) is waiting for a CPU, idle or busy, and %s is the rest.",
		s.Value(mean.Estimate), s.Value(waiting.Estimate), report.Percent(waiting.Estimate/mean.Estimate), s.Value(rest.Estimate))}
}

// Thresholds of contentionAnswers: at a CPU utilization up to idleEnough the lowest rate counts as
// free of contention; growth of the wait within contentionMargin, as a share of the mean overhead,
// counts as none.
const (
	idleEnough       = 0.3
	contentionMargin = 0.1
)

// contentionAnswers states how much waiting for a CPU grows from the lowest of several rates to the
// highest: that is contention, which more CPUs remove.
func contentionAnswers(f record.Findings, top record.Cell) []string {
	i := slices.IndexFunc(f.Factors, func(x record.FactorLevels) bool { return x.Factor == study.FactorRate && report.Numbers(x.Levels) })
	if i < 0 || len(f.Factors[i].Levels) < 2 {
		return nil
	}
	levels := f.Factors[i].Levels
	cell := func(level string) record.Cell { return top.With(record.Cell{study.FactorRate: level}) }
	lowest, highest := cell(levels[0]), cell(levels[len(levels)-1])
	waits, means := report.Differences(f, dataplane.FindingWaiting+finding.Overhead), report.Differences(f, dataplane.FindingMean+finding.Overhead)
	low, okLow := waits[lowest.Key()]
	high, okHigh := waits[highest.Key()]
	mean, okMean := means[highest.Key()]
	for _, x := range []record.Finding{low, high, mean} {
		okMean = okMean && x.Verdict != record.VerdictInvalid
	}
	if !okLow || !okHigh || !okMean {
		return nil
	}
	// Both cover the same blocks but different trials: treat them as independent.
	growth, half := high.Estimate-low.Estimate, math.Hypot((low.High-low.Low)/2, (high.High-high.Low)/2)
	s := report.ScaleOf(high)
	rate := func(level string) string {
		v, _ := strconv.ParseFloat(level, 64) // levels are numbers
		return words.Grouped(v)
	}
	goes := "grows"
	if growth < 0 {
		goes = "falls"
	}
	said := fmt.Sprintf("From %s to %s requests per second waiting for a CPU %s from %s to %s of the overhead", rate(levels[0]), rate(levels[len(levels)-1]), goes, s.Value(low.Estimate), s.Value(high.Estimate))
	margin := contentionMargin * math.Abs(mean.Estimate)
	switch busy := busyIn(f, lowest); {
	case math.IsNaN(busy) || busy > idleEnough:
		return []string{said + ": how much of it is contention is unknown, since the CPUs were not idle at the lowest rate."}
	case growth-half > 0:
		return []string{fmt.Sprintf("%s. The difference, %s (%s to %s), is contention, which more CPUs would remove; the rest is what idle CPUs take to wake up.", said, s.Value(growth), s.Value(growth-half), s.Value(growth+half))}
	case growth+half <= 0:
		return []string{said + ": idle CPUs take longer to wake up the more they rest. Whether contention adds to the wait at the higher rate is unknown."}
	case growth+half <= margin && growth-half >= -margin:
		return []string{fmt.Sprintf("%s: contention adds no more than %s. The wait is what idle CPUs take to wake up.", said, s.Value(math.Max(0, growth+half)))}
	}
	return []string{fmt.Sprintf("%s: contention adds between %s and %s, inconclusive.", said, s.Value(math.Max(0, growth-half)), s.Value(growth+half))}
}

// busyIn returns the utilization of the machine in a cell; NaN if unknown.
func busyIn(f record.Findings, cell record.Cell) float64 {
	for _, c := range f.Cells {
		if c.Cell.Key() == cell.Key() && c.Pressure != nil {
			return c.Pressure.BusyRatio
		}
	}
	return math.NaN()
}
