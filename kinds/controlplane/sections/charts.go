package sections

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
)

// convergenceCharts draws how long changes took: by percentile, by share of pairs, and per change.
func convergenceCharts(f record.Findings) []report.Chart {
	l := report.LayoutOf(f)
	var out []report.Chart
	for _, slice := range l.Slices(func(c record.CellSummary) bool {
		return c.Valid > 0 && len(c.Control.Percentiles) > 0
	}) {
		out = append(out, report.DistributionCharts(l, slice, "convergence", "changes and proxies",
			func(c record.CellSummary) report.Curves {
				return report.Curves{Percentiles: c.Control.Percentiles, CDF: c.Control.CDF,
					Samples: c.Control.Acknowledged}
			})...)
		for _, c := range slice.Cells {
			if len(c.Control.Changes) > 0 {
				out = append(out, changesChart(l, slice, c))
			}
		}
	}
	return out
}

// changesChart draws when each change of a trial reached the first, the median and the last proxy.
func changesChart(l report.Layout, slice report.Slice, c record.CellSummary) report.Chart {
	largest := 0.0
	for _, p := range c.Control.Changes {
		largest = math.Max(largest, p.LastUS)
	}
	s := report.ScaleFor("us", largest/2)
	lines := report.Lines{X: report.Axis{Title: "seconds after the first change", Scale: report.AxisLinear,
		Zero: true},
		Y: report.Axis{Title: "convergence, " + s.Unit, Scale: report.AxisLinear, Zero: true}, Markers: true}
	for i, edge := range []struct {
		label string
		of    func(record.ChangePoint) float64
	}{
		{"last proxy", func(p record.ChangePoint) float64 { return p.LastUS }},
		{"median", func(p record.ChangePoint) float64 { return p.MedianUS }},
		{"first", func(p record.ChangePoint) float64 { return p.FirstUS }},
	} {
		series := report.Series{Label: edge.label, Cell: c.Cell,
			Look: report.Look{Color: report.StackColor(i + 1), Dash: i}}
		for _, p := range c.Control.Changes {
			if us := edge.of(p); us >= 0 { // else never
				series.Points = append(series.Points, report.Point{X: p.AtS, Y: us / s.Div,
					At: report.Fixed(p.AtS, 1) + " s", Text: report.ScaleFor("us", us).Value(us) + " " + p.Kind})
			}
		}
		lines.Series = append(lines.Series, series)
	}
	label := l.Label(c.Cell, slice.Cells)
	return report.Chart{Name: "Each change of one trial, " + label +
		": until the first, the median and the last proxy had acknowledged it", Title: label,
		Options: append([]report.Option{{Switch: "curve", Choice: "change by change"}},
			slice.Options...), Lines: &lines}
}

// apart is the maximum ratio between the lengths of cells on one axis.
const apart = 5

// waterfallCharts stacks the stages of a change's way. Cells of very different length get separate
// charts.
func waterfallCharts(f record.Findings) []report.Chart {
	l := report.LayoutOf(f)
	var out []report.Chart
	for _, slice := range l.Slices(func(c record.CellSummary) bool {
		return c.Valid > 0 && len(c.Control.Stages) > 0 && c.Control.MeanUS > 0
	}) {
		place := func(c record.CellSummary) int {
			return slices.IndexFunc(slice.Cells,
				func(o record.CellSummary) bool { return o.Cell.Key() == c.Cell.Key() })
		}
		cells := slices.Clone(slice.Cells)
		slices.SortStableFunc(cells, func(a, b record.CellSummary) int {
			return cmp.Compare(a.Control.MeanUS, b.Control.MeanUS)
		})
		for len(cells) > 0 {
			n := 1
			for n < len(cells) && cells[n].Control.MeanUS <= apart*cells[0].Control.MeanUS {
				n++
			}
			group := slices.Clone(cells[:n])
			slices.SortFunc(group, func(a, b record.CellSummary) int { return cmp.Compare(place(a), place(b)) })
			out, cells = append(out, waterfallChart(l, slice, group)), cells[n:]
		}
	}
	return out
}

func waterfallChart(l report.Layout, slice report.Slice, group []record.CellSummary) report.Chart {
	largest := 0.0
	for _, c := range group {
		largest = math.Max(largest, c.Control.MeanUS)
	}
	s := report.ScaleFor("us", largest)
	bars, present, unexplained := report.Bars{X: report.Axis{Title: "mean, " + s.Unit,
		Scale: report.AxisLinear}}, map[string]bool{}, false
	for _, c := range group {
		k := c.Control
		row := report.BarRow{Label: l.Label(c.Cell, slice.Cells), Cell: c.Cell,
			Text: s.Value(k.MeanUS) + ", " + report.Percent(k.ResidualUS/k.MeanUS) + " unexplained",
			Mark: &report.BarMark{Value: k.MeanUS / s.Div, Low: k.MeanUS / s.Div, High: k.MeanUS / s.Div,
				Text: "measured: " + s.Value(k.MeanUS)}}
		for i, name := range record.Stages() {
			at := slices.IndexFunc(k.Stages, func(s record.Stage) bool { return s.Name == name })
			if at < 0 || k.Stages[at].MeanUS <= 0 {
				continue
			}
			present[name] = true
			row.Pieces = append(row.Pieces, report.Piece{Color: report.StackColor(i),
				Value: k.Stages[at].MeanUS / s.Div, Text: stageNames[name] + ": " + s.Value(k.Stages[at].MeanUS)})
		}
		if k.ResidualUS > 0 {
			unexplained = true
			row.Pieces = append(row.Pieces, report.Piece{Color: "ink-3", Value: k.ResidualUS / s.Div, Hatched: true,
				Text: "unexplained: " + s.Value(k.ResidualUS)})
		}
		bars.Rows = append(bars.Rows, row)
	}
	var legend []report.Key
	for i, name := range record.Stages() {
		if present[name] {
			legend = append(legend, report.Key{Text: stageNames[name], Color: report.StackColor(i)})
		}
	}
	if unexplained {
		legend = append(legend, report.Key{Text: "unexplained", Shape: report.KeyHatched})
	}
	return report.Chart{Name: "Mean time from commit to ACK by cell, stacked by stage", Options: slice.Options,
		Initial: slice.Initial,
		Legend:  append(legend, report.Key{Text: "measured mean", Shape: report.KeyMark}), Bars: &bars}
}

// sizeCharts stacks the bytes of each resource type.
func sizeCharts(of func(*record.ControlSummary) map[string]int64, title string) func(record.Findings) []report.Chart {
	return func(f record.Findings) []report.Chart {
		var keys []report.Key
		types := typesOf(f, func(c *record.ControlSummary) []string { return slices.Sorted(maps.Keys(of(c))) })
		for i, kind := range types {
			keys = append(keys, report.Key{Text: strings.ToUpper(kind), Color: report.StackColor(i)})
		}
		total := func(c record.CellSummary) (sum float64) {
			if c.Valid == 0 {
				return 0
			}
			for _, bytes := range of(c.Control) {
				sum += float64(bytes)
			}
			return sum
		}
		largest := 0.0
		for _, c := range f.Cells {
			largest = math.Max(largest, total(c))
		}
		s := report.ScaleFor("bytes", largest)
		x := report.Axis{Title: "bytes on the wire, " + s.Unit, Scale: report.AxisLinear}
		return report.StackedCharts(f, title+", by cell, stacked by type", x, keys, func(c record.CellSummary) (row report.BarRow) {
			if total(c) == 0 {
				return row
			}
			for i, kind := range types {
				if bytes := float64(of(c.Control)[kind]); bytes > 0 {
					row.Pieces = append(row.Pieces, report.Piece{Color: keys[i].Color, Value: bytes / s.Div, Text: keys[i].Text + ": " + s.Value(bytes)})
				}
			}
			row.Text = s.Value(total(c))
			return row
		})
	}
}

// trafficCharts stacks the outcomes of requests that went to a stale endpoint.
func trafficCharts(f record.Findings) []report.Chart {
	fates := []struct {
		words string
		of    func(*record.Traffic) int64
	}{
		{"failed for the caller", func(t *record.Traffic) int64 { return t.PhantomFailures }},
		{"saved by a retry", func(t *record.Traffic) int64 { return t.PhantomHidden }},
		{"served by a terminating pod", func(t *record.Traffic) int64 { return t.PhantomServed }},
		{"unknown outcome", func(t *record.Traffic) int64 { return t.PhantomOpen }},
	}
	var keys []report.Key
	for i, fate := range fates {
		keys = append(keys, report.Key{Text: fate.words, Color: report.StackColor(i)})
	}
	x := report.Axis{Title: "of all requests, %", Scale: report.AxisLinear}
	return report.StackedCharts(f, "Requests sent to stale endpoints, by cell, stacked by outcome", x, keys, func(c record.CellSummary) (row report.BarRow) {
		if c.Valid == 0 || c.Control.Traffic == nil || c.Control.Traffic.Requests == 0 {
			return row
		}
		t := c.Control.Traffic
		for i, fate := range fates {
			if n := fate.of(t); n > 0 {
				row.Pieces = append(row.Pieces, report.Piece{Color: keys[i].Color, Value: 100 * float64(n) / float64(t.Requests), Text: fate.words + ": " + report.Count(n)})
			}
		}
		row.Text = fmt.Sprintf("%s of %s requests", report.Count(t.PhantomRequests), report.Count(t.Requests))
		return row
	})
}

// frontCharts draws the cells that a search tried, in pairs of its measures.
func frontCharts(f record.Findings) []report.Chart {
	t := f.Tuning
	if t == nil {
		return nil
	}
	table := Kind().Findings
	words := func(m record.TunedMeasure) string {
		d, _ := table.Find(m.Finding)
		return cmp.Or(d.Words, report.FactorName(m.Finding))
	}
	scale := func(i int) report.Scale {
		largest := 0.0
		for _, c := range t.Cells {
			if c.Values[i].Known {
				largest = math.Max(largest, math.Abs(c.Values[i].Estimate))
			}
		}
		return report.ScaleFor(t.Measures[i].Unit, largest)
	}
	var out []report.Chart
	for up := range t.Measures {
		for across := up + 1; across < len(t.Measures); across++ {
			if !t.Measures[up].Axis || !t.Measures[across].Axis {
				continue
			}
			sx, sy := scale(across), scale(up)
			wx, wy := words(t.Measures[across]), words(t.Measures[up])
			dots := report.Scatter{X: report.Axis{Title: report.UpperFirst(wx) + ", " + sx.Unit,
				Scale: report.AxisLog}, Y: report.Axis{Title: report.UpperFirst(wy) + ", " + sy.Unit, Scale: report.AxisLog}}
			for _, c := range t.Cells {
				x, y := c.Values[across], c.Values[up]
				if !x.Known || !y.Known {
					continue
				}
				if x.Low <= 0 {
					dots.X.Scale = report.AxisLinear
				}
				if y.Low <= 0 {
					dots.Y.Scale = report.AxisLinear
				}
				look := report.Look{Color: "ink-3"}
				switch {
				case c.Recommended:
					look = report.Look{Color: "series-1", Dash: 3}
				case c.Present:
					look = report.Look{Color: "series-2", Dash: 1}
				case c.Front:
					look = report.Look{Color: "series-3"}
				}
				dots.Dots = append(dots.Dots, report.Dot{
					X:    [3]float64{x.Estimate / sx.Div, x.Low / sx.Div, x.High / sx.Div},
					Y:    [3]float64{y.Estimate / sy.Div, y.Low / sy.Div, y.High / sy.Div},
					Look: look, Hollow: !c.Front, Text: fmt.Sprintf("%s: %s %s, %s %s", c.Label, wx,
						sx.Quantity(x.Estimate, x.Low, x.High), wy, sy.Quantity(y.Estimate, y.Low, y.High))})
			}
			if len(dots.Dots) > 0 {
				out = append(out, report.Chart{Name: "Settings that were tried: " + wy + " against " + wx +
					", with 95% intervals",
					Options: []report.Option{{Switch: "measures", Choice: wy + " against " + wx}}, Scatter: &dots})
			}
		}
	}
	return out
}
