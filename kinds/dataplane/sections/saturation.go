package sections

import (
	"cmp"
	"slices"

	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
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
	factors := slices.DeleteFunc(slices.Clone(f.Factors),
		func(l record.FactorLevels) bool { return l.Factor == "rate" })
	for _, l := range factors {
		t.Columns = append(t.Columns, report.FactorColumn(l))
	}
	t.Columns = append(t.Columns, report.Column{Head: "meets the bound (95% interval)", Right: true},
		report.Column{Head: "knee", Right: true, Keep: 5}, report.Column{Head: "blocks", Right: true,
			Keep: 1}, report.Column{Head: "limited by", Keep: 3})
	seen := map[string]bool{}
	for _, c := range f.Cells {
		cell := report.WithoutRate(c.Cell)
		h, haveH := highest[cell.Key()]
		k, haveK := knee[cell.Key()]
		if seen[cell.Key()] || !haveH && !haveK {
			continue
		}
		seen[cell.Key()] = true
		var row []report.Text
		for _, l := range factors {
			row = append(row, report.Text{S: cell[l.Factor]})
		}
		blocks := report.Text{S: "–", Style: report.StyleDim}
		if haveH {
			blocks = report.Text{S: report.Count(h.Blocks)}
		}
		t.Rows = append(t.Rows, append(row, reachText(h, haveH), reachText(k, haveK), blocks,
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
		return report.Text{S: "–", Style: report.StyleDim}
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
