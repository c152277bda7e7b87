package sections

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/report"
	"github.com/meshtrial/meshtrial/study"
)

// saturationTable lists the limits of the rate, with a row per mode: the highest rate within the
// bound, the knee of the latency curve, and what limits it.
func saturationTable(f record.Findings) report.Table {
	highest, knee := report.Named(f, "highest_rate"), report.Named(f, "knee_rate")
	if len(highest) == 0 && len(knee) == 0 {
		return report.Table{}
	}
	t := report.Table{Title: "Maximum sustainable rate, requests/s"}
	others := f
	others.Factors = slices.DeleteFunc(slices.Clone(f.Factors), func(l record.FactorLevels) bool { return l.Factor == study.FactorRate })
	t.Columns = append(report.FactorColumns(others), right("meets the bound (95% interval)", 0), right("knee", 5), right("blocks", 1),
		report.Column{Head: "limited by", Keep: 3})
	seen := map[string]bool{}
	for _, c := range f.Cells {
		cell := report.WithoutRate(c.Cell)
		h, haveH := highest[cell.Key()]
		k, haveK := knee[cell.Key()]
		if seen[cell.Key()] || !haveH && !haveK {
			continue
		}
		seen[cell.Key()] = true
		blocks := report.Dash
		if haveH {
			blocks = report.Text{S: report.Count(h.Blocks)}
		}
		t.Rows = append(t.Rows, append(report.FactorTexts(others, cell), reachText(h, haveH), reachText(k, haveK), blocks,
			report.Text{S: note.Words(h.Warnings)}))
	}
	t.Notes = append(t.Notes, "The interval goes from a rate that meets the bound to one that does not. "+
		"Knee: from the highest rate at which p99 stays within twice its value at the lowest rate, by medians over blocks, to the next rate measured; it has no confidence interval. "+
		"Limits of the generator or of the shared machine are not attributed to the proxies.")
	return t
}

// reachText formats the interval of a limit; "or more" if nothing measured lies beyond it, or
// failed there for another reason.
func reachText(x record.Finding, ok bool) report.Text {
	switch {
	case !ok || x.Verdict == record.VerdictInvalid:
		return report.Dash
	case x.Low == 0 && x.High == 0:
		return report.Text{S: "not known", Style: report.StyleBad}
	case x.Low == 0:
		return report.Text{S: "below " + report.Amount(x.High)}
	case x.High > x.Low:
		return report.Text{S: report.Amount(x.Low) + "–" + report.Amount(x.High), Style: report.StyleStrong}
	}
	return report.Text{S: report.Amount(x.Low) + " or more"}
}

// saturationCharts draws latency against the rate, if the rate was searched.
func saturationCharts(f record.Findings) []report.Chart {
	i := slices.IndexFunc(f.Factors, func(l record.FactorLevels) bool { return l.Factor == study.FactorRate })
	if i < 0 || len(report.Named(f, "highest_rate"))+len(report.Named(f, "knee_rate")) == 0 {
		return nil
	}
	l := report.LayoutOf(f)
	cells := slices.DeleteFunc(slices.Clone(f.Cells), func(c record.CellSummary) bool {
		return c.Valid == 0 || !(report.Number(c.Cell[study.FactorRate]) > 0)
	})
	rates := f.Factors[i]
	rates.Levels = slices.Clone(rates.Levels)
	slices.SortFunc(rates.Levels, func(a, b string) int { return cmp.Compare(report.Number(a), report.Number(b)) })
	var out []report.Chart
	for _, q := range []struct {
		name string
		q    record.Quantile
	}{{"p99", 0.99}, {"p90", 0.9}, {"median", 0.5}} {
		lines := report.Lines{X: report.LevelAxis(rates), Y: report.Axis{Title: q.name + " latency, ms", Scale: report.AxisLog}, Markers: true}
		lines.X.Title = "requests per second"
		for _, g := range l.Along(study.FactorRate, cells) {
			series := report.Series{Label: g.Label, Cell: g.Cell, Look: l.Look(g.Cell)}
			for _, c := range g.Cells {
				if us := c.Intended.At(q.q); us > 0 {
					x := report.Number(c.Cell[study.FactorRate])
					series.Points = append(series.Points, report.Point{X: x, Y: us / 1000,
						At: report.Amount(x) + " requests per second", Text: report.ScaleFor("us", us).Value(us)})
				}
			}
			lines.Series = append(lines.Series, series)
		}
		out = append(out, report.Chart{Name: "Latency (" + q.name + ") against the rate",
			Options: []report.Option{{Switch: "percentile", Choice: q.name}}, Lines: &lines})
	}
	return out
}

// waitingTable divides the mean overhead into waiting for a CPU and the rest.
func waitingTable(f record.Findings) report.Table {
	if len(report.Differences(f, dataplane.FindingWaiting+finding.Overhead)) == 0 {
		return report.Table{}
	}
	t := differenceTable(f, "Waiting for a CPU in the mean latency overhead, %s (95%% interval)", []differenceColumn{
		{dataplane.FindingMean, "mean overhead"}, {dataplane.FindingWaiting, "waiting for a CPU"}, {dataplane.FindingService, "without the waiting"},
	}, report.Figure)
	t.Notes = append(t.Notes, "Waiting: run-queue wait of the proxies' workers and the workload, per request. Idle CPUs take time to wake up, too: more CPUs would remove only what the machine's load adds (study waiting).")
	return t
}

// waitingTold is the share of the mean overhead from which an answer mentions waiting for a CPU.
const waitingTold = 0.1

// waitingAnswers states how much of the headline's overhead is waiting for a CPU of this machine.
func waitingAnswers(f record.Findings, top record.Cell) []string {
	at := func(name string) record.Finding { return report.Differences(f, name+finding.Overhead)[top.Key()] }
	mean, waiting, rest := at(dataplane.FindingMean), at(dataplane.FindingWaiting), at(dataplane.FindingService)
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
	low, high, mean := waits[lowest.Key()], waits[highest.Key()], means[highest.Key()]
	for _, x := range []record.Finding{low, high, mean} {
		if x.Name == "" || x.Verdict == record.VerdictInvalid {
			return nil
		}
	}
	// Both cover the same blocks but different trials: treat them as independent.
	growth, half := high.Estimate-low.Estimate, math.Hypot((low.High-low.Low)/2, (high.High-high.Low)/2)
	s := report.ScaleOf(high)
	goes := "grows"
	if growth < 0 {
		goes = "falls"
	}
	said := fmt.Sprintf("From %s to %s requests per second waiting for a CPU %s from %s to %s of the overhead", words.Grouped(report.Number(levels[0])), words.Grouped(report.Number(levels[len(levels)-1])), goes, s.Value(low.Estimate), s.Value(high.Estimate))
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
