package report

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/study"
)

// on returns an axis for values on a scale.
func on(s Scale, title, kind string) Axis {
	if s.Unit != "" {
		title += ", " + s.Unit
	}
	return Axis{Title: title, Scale: kind}
}

// significant reports whether a verdict supports its figure.
func significant(verdict string) bool {
	return verdict == record.VerdictReal || verdict == record.VerdictMeasured
}

// figureText formats a finding's figure for display next to its mark.
func figureText(x record.Finding, s Scale) string {
	text := Figure(x, s).S
	if x.Verdict == record.VerdictInconclusive {
		text += " inconclusive"
	}
	return text
}

// Explanations of charts that several kinds of study have.
const (
	DifferenceLead = "The within-block difference to the baseline, with its 95% interval over blocks. Hollow marks are not significant."
	LatencyLead    = "From intended send time, so a stall counts against every request it delays."
	CPULead        = "CPU time as the kernel accounts it over the window, divided by the requests completed in it."
	MemoryLead     = "Memory of each part's processes at the end of the window, median over trials."
)

// LatencyDifference selects latency differences for [DifferenceCharts].
func LatencyDifference(_ finding.Def, x record.Finding) bool { return x.Probe == study.MeasureLatency }

// DifferenceCharts draws what cells add to their baselines, for the findings
// that want selects: as lines over the numeric factor, with a switch for each
// measure; without such a factor as intervals, one chart each.
func DifferenceCharts(findings finding.Table, f record.Findings,
	want func(finding.Def, record.Finding) bool) []Chart {
	k, l := Kind{Findings: findings}, LayoutOf(f)
	var out []Chart
	for _, d := range findings.All() {
		by := Differences(f, d.Name)
		known := false
		for key, x := range by {
			if !want(d, x) {
				delete(by, key)
				continue
			}
			known = known || x.Verdict != record.VerdictInvalid
		}
		if !known {
			continue
		}
		if l.Numeric != nil {
			out = append(out, k.differenceLines(l, d, by)...)
		} else {
			out = append(out, k.differenceRows(l, d, by))
		}
	}
	return out
}

// differenceScale returns a common scale for all differences of a measure.
func differenceScale(by map[string]record.Finding) Scale {
	var all []float64
	unit := ""
	for _, x := range by {
		all, unit = append(all, x.Estimate, x.Low, x.High), x.Unit
	}
	return ScaleFor(unit, all...)
}

func (k Kind) differenceRows(l Layout, d finding.Def, by map[string]record.Finding) Chart {
	shown := having(l.Findings.Cells, func(c record.CellSummary) bool { _, ok := by[c.Cell.Key()]; return ok })
	s, measure := differenceScale(by), Measure(d.Name)
	rows := Intervals{X: on(s, "added "+k.MeasureWords(d.Name), AxisLinear)}
	for _, c := range shown {
		x := by[c.Cell.Key()]
		rows.Rows = append(rows.Rows, IntervalRow{
			Label: l.Label(c.Cell, shown), Cell: c.Cell, Look: l.Look(c.Cell), Estimate: x.Estimate / s.Div, Low: x.Low / s.Div, High: x.High / s.Div,
			Hollow: !significant(x.Verdict), Empty: x.Verdict == record.VerdictInvalid,
			Text: figureText(x, s), Noise: noiseFloor(l.Findings, measure, x) / s.Div,
		})
	}
	return Chart{Name: "Added " + k.MeasureWords(d.Name) + " by cell, with 95% intervals and the noise floor",
		Title:     "Added " + k.MeasureWords(d.Name),
		Legend:    []Key{{Text: "noise floor: how much two identical baselines differ", Shape: KeyBand}},
		Intervals: &rows}
}

// noiseFloor returns the noise floor that a difference was judged by, or 0 if
// there is none.
func noiseFloor(f record.Findings, measure string, x record.Finding) float64 {
	most := 0.0
	for _, n := range f.NoiseFloor {
		if n.Measure != measure {
			continue
		}
		if n.Cell.Key() == x.Against.Key() {
			return n.Floor
		}
		most = math.Max(most, n.Floor)
	}
	return most
}

// differenceLines returns a chart for each combination of compared levels, all
// with the same axis.
func (k Kind) differenceLines(l Layout, d finding.Def, by map[string]record.Finding) []Chart {
	s := differenceScale(by)
	low, high := 0.0, 0.0
	var groups []Group // by compared levels
	for _, c := range l.Findings.Cells {
		x, ok := by[c.Cell.Key()]
		if !ok || x.Verdict == record.VerdictInvalid {
			continue
		}
		low, high = math.Min(low, x.Low/s.Div), math.Max(high, x.High/s.Div)
		cell := Pick(c.Cell, l.Compared)
		i := slices.IndexFunc(groups, func(g Group) bool { return g.Cell.Key() == cell.Key() })
		if i < 0 {
			i = len(groups)
			var parts []string
			for _, factor := range l.Compared {
				parts = append(parts, factorOf(factor).Label(cell[factor]))
			}
			groups = append(groups, Group{Cell: cell, Label: strings.Join(parts, " · ")})
		}
		groups[i].Cells = append(groups[i].Cells, c)
	}
	air := 0.06 * (high - low)
	if low < 0 {
		low -= air
	}
	var out []Chart
	for _, g := range groups {
		lines := Lines{X: LevelAxis(*l.Numeric), Y: on(s, "added "+k.MeasureWords(d.Name), AxisLinear), Markers: true}
		lines.Y.Zero, lines.Y.Range = true, &[2]float64{low, high + air}
		for _, one := range l.Along(l.Numeric.Factor, g.Cells, l.Compared...) {
			series := Series{Label: one.Label, Cell: one.Cell, Look: l.Look(one.Cell)}
			for _, c := range one.Cells {
				x := by[c.Cell.Key()]
				series.Points = append(series.Points, levelPoint(l, c, x.Estimate, x.Low, x.High, s, figureText(x, s),
					!significant(x.Verdict)))
			}
			lines.Series = append(lines.Series, series)
		}
		out = append(out, Chart{
			Name: fmt.Sprintf("Added %s against %s, %s, with 95%% intervals", k.MeasureWords(d.Name),
				FactorName(l.Numeric.Factor), g.Label),
			Title: UpperFirst(g.Label), Options: []Option{{"measure", k.words(Measure(d.Name))}}, Lines: &lines,
		})
	}
	return out
}

// levelPoint returns a cell's value at its level of the numeric factor.
func levelPoint(l Layout, c record.CellSummary, y, low, high float64, s Scale, text string, hollow bool) Point {
	x := Number(c.Cell[l.Numeric.Factor])
	low, high = low/s.Div, high/s.Div
	return Point{X: x, Y: y / s.Div, Low: &low, High: &high, Hollow: hollow,
		At: Join(Amount(x), LevelAxis(*l.Numeric).Title), Text: text}
}

// LatencyCharts draws the distribution of each cell's latency, as a curve over
// percentiles and as the share of requests by latency.
func LatencyCharts(f record.Findings) []Chart {
	l := LayoutOf(f)
	curves := func(c record.CellSummary) Curves {
		return Curves{c.Percentiles, c.CDF, c.Requests}
	}
	var out []Chart
	for _, slice := range l.Slices(func(c record.CellSummary) bool { return c.Valid > 0 && len(c.Percentiles) > 0 }) {
		out = append(out, DistributionCharts(l, slice, "latency", "requests", curves)...)
	}
	return out
}

// Curves is a cell's distribution of times in microseconds.
type Curves struct {
	Percentiles, CDF []record.CurvePoint
	Samples          int64
}

// DistributionCharts draws distributions of what was timed over samples.
func DistributionCharts(l Layout, slice Slice, timed, samples string, of func(record.CellSummary) Curves) []Chart {
	var all, largest []float64
	for _, c := range slice.Cells {
		for _, p := range supported(of(c)) {
			all = append(all, p.Y)
		}
		for _, p := range of(c).CDF {
			largest = append(largest, p.X)
		}
	}
	if len(all) == 0 {
		return nil
	}
	s := ScaleFor("us", slices.Max(all)/4)
	curve := Lines{X: Axis{Title: "percentile of " + samples, Scale: AxisNines}, Y: on(s, timed, scaleOfAxis(all))}
	shares := Lines{X: on(s, timed, AxisLog), Y: Axis{Title: "share of " + samples + ", %", Scale: AxisLinear,
		Range: &[2]float64{0, 100}}}
	for _, c := range slice.Cells {
		one, two := Series{Label: l.Label(c.Cell, slice.Cells), Cell: c.Cell, Look: l.Look(c.Cell)}, Series{}
		two = one
		for _, p := range supported(of(c)) {
			one.Points = append(one.Points, Point{X: p.X, Y: p.Y / s.Div, At: percentileName(p.X),
				Text: s.Value(p.Y)})
		}
		for _, p := range of(c).CDF {
			if p.X > 0 {
				two.Points = append(two.Points, Point{X: p.X / s.Div, Y: 100 * p.Y,
					At: ScaleFor("us", p.X).Value(p.X), Text: Fixed(100*p.Y, 1) + "%"})
			}
		}
		curve.Series, shares.Series = append(curve.Series, one), append(shares.Series, two)
	}
	option := func(name string) []Option { return append([]Option{{"curve", name}}, slice.Options...) }
	out := []Chart{{Name: UpperFirst(timed) + " by percentile, a curve for each cell; the axis spreads the slowest",
		Options: option("percentiles"), Initial: slice.Initial, Lines: &curve}}
	if len(largest) > 0 {
		out = append(out, Chart{Name: UpperFirst("share of "+samples) + " by " + timed + ", a curve for each cell",
			Options: option("distribution"), Lines: &shares})
	}
	return out
}

// supported returns the percentiles that more than one sample supports.
func supported(c Curves) (out []record.CurvePoint) {
	last := math.Min(99.999, 100*(1-1/math.Max(float64(c.Samples), 10)))
	for _, p := range c.Percentiles {
		if p.X <= last && p.Y > 0 {
			out = append(out, p)
		}
	}
	return out
}

// percentileName formats a percentile as "p99.9".
func percentileName(p float64) string {
	return "p" + csvNumber(math.Round(p*1e4)/1e4)
}

// CPUCharts draws CPU per request: of each part over the numeric factor, and of
// all parts stacked next to the whole machine's.
func CPUCharts(f record.Findings) []Chart {
	l := LayoutOf(f)
	parts := chartParts(f, func(c record.CellSummary) []string { return slices.Sorted(maps.Keys(c.CPUPerRequest)) })
	var out []Chart
	s := Scale{Div: 1, Unit: "µs"}
	for _, part := range parts {
		if l.Numeric == nil {
			break
		}
		cells := having(f.Cells, func(c record.CellSummary) bool { _, ok := c.CPUPerRequest[part]; return ok })
		lines := Lines{X: LevelAxis(*l.Numeric), Y: on(s, "CPU per request", AxisLinear), Markers: true}
		lines.Y.Zero = true
		for _, g := range l.Along(l.Numeric.Factor, cells) {
			series := Series{Label: g.Label, Cell: g.Cell, Look: l.Look(g.Cell)}
			for _, c := range g.Cells {
				cpu := c.CPUPerRequest[part]
				series.Points = append(series.Points, levelPoint(l, c, cpu.UserUS+cpu.SystemUS, cpu.LowUS, cpu.HighUS,
					s, s.Quantity(cpu.UserUS+cpu.SystemUS, cpu.LowUS, cpu.HighUS), false))
			}
			lines.Series = append(lines.Series, series)
		}
		out = append(out, Chart{Name: fmt.Sprintf("CPU time per request of the %s against %s, with 95%% intervals",
			PartWords(part), FactorName(l.Numeric.Factor)),
			Options: []Option{{"part", PartWords(part)}}, Lines: &lines})
	}
	stacked := slices.DeleteFunc(slices.Clone(parts), func(part string) bool {
		return part == record.PartMachine || part == record.PartUnattributed
	})
	name := "CPU time per request by cell, stacked by part, kernel time hatched"
	return append(out, StackedCharts(f, name, on(s, "CPU per request", AxisLinear), partKeys(stacked), func(c record.CellSummary) (row BarRow) {
		sum := 0.0
		for _, part := range stacked {
			cpu, ok := c.CPUPerRequest[part]
			if !ok {
				continue
			}
			sum += cpu.UserUS + cpu.SystemUS
			words := PartWords(part)
			if !cpu.Whole {
				words += ", user"
			}
			row.Pieces = append(row.Pieces, Piece{PartColor(part), cpu.UserUS, false, words + ": " + s.Value(cpu.UserUS)})
			if cpu.SystemUS > 0 {
				row.Pieces = append(row.Pieces, Piece{PartColor(part), cpu.SystemUS, true, PartWords(part) + ", kernel: " + s.Value(cpu.SystemUS)})
			}
		}
		row.Text = s.Value(sum)
		if m, ok := c.CPUPerRequest[record.PartMachine]; ok {
			total := m.UserUS + m.SystemUS
			row.Text = s.Plain(sum) + " of " + s.Value(total)
			row.Mark = &BarMark{total, m.LowUS, m.HighUS, "whole machine: " + s.Quantity(total, m.LowUS, m.HighUS)}
		}
		return row
	})...)
}

// chartParts lists the parts of trials that any cell has, in the order of
// reports.
func chartParts(f record.Findings, of func(record.CellSummary) []string) []string {
	return WithRest(slices.Concat(record.ProxyParts(), []string{record.PartWorker, record.PartGenerator,
		record.PartControl, record.PartMachine}), f.Cells, of)
}

// partKeys explains the colours of parts.
func partKeys(parts []string) (out []Key) {
	for _, part := range parts {
		out = append(out, Key{Text: PartWords(part), Color: PartColor(part)})
	}
	return out
}

// MemoryCharts stacks the memory of all parts of a cell.
func MemoryCharts(f record.Findings) []Chart {
	parts := chartParts(f, func(c record.CellSummary) []string { return slices.Sorted(maps.Keys(c.MemoryBytes)) })
	var all []float64
	for _, c := range f.Cells {
		for _, bytes := range c.MemoryBytes {
			all = append(all, float64(bytes))
		}
	}
	s := ScaleFor("bytes", all...)
	return StackedCharts(f, "Memory by cell, stacked by part", on(s, "memory", AxisLinear), partKeys(parts), func(c record.CellSummary) (row BarRow) {
		sum := 0.0
		for _, part := range parts {
			if bytes, ok := c.MemoryBytes[part]; ok {
				sum += float64(bytes)
				row.Pieces = append(row.Pieces, Piece{PartColor(part), float64(bytes) / s.Div, false, PartWords(part) + ": " + s.Value(float64(bytes))})
			}
		}
		row.Text = s.Value(sum)
		return row
	})
}

// StackedCharts draws a bar per cell that stacks pieces, which keys explain by their
// colour. of returns a cell's row, without its label. Cells without pieces are omitted.
func StackedCharts(f record.Findings, name string, x Axis, keys []Key, of func(c record.CellSummary) BarRow) []Chart {
	l := LayoutOf(f)
	var out []Chart
	for _, slice := range l.Slices(func(c record.CellSummary) bool { return len(of(c).Pieces) > 0 }) {
		bars, present, hatched, marked := Bars{X: x}, map[string]bool{}, false, false
		for _, c := range slice.Cells {
			row := of(c)
			for _, p := range row.Pieces {
				present[p.Color], hatched = true, hatched || p.Hatched
			}
			row.Label, row.Cell, marked = l.Label(c.Cell, slice.Cells), c.Cell, marked || row.Mark != nil
			bars.Rows = append(bars.Rows, row)
		}
		legend := slices.DeleteFunc(slices.Clone(keys), func(k Key) bool { return !present[k.Color] })
		if hatched {
			legend = append(legend, Key{Text: "hatched: in the kernel", Shape: KeyHatched})
		}
		if marked {
			legend = append(legend, Key{Text: "whole machine", Shape: KeyMark})
		}
		out = append(out, Chart{Name: name, Options: slice.Options, Initial: slice.Initial, Legend: legend, Bars: &bars})
	}
	return out
}

// driftCharts draws each cell's median in each block.
func driftCharts(f record.Findings) []Chart {
	l := LayoutOf(f)
	var out []Chart
	for _, slice := range l.Slices(func(c record.CellSummary) bool { return len(c.BlockP50US) > 0 }) {
		var values []float64
		for _, c := range slice.Cells {
			for _, b := range c.BlockP50US {
				values = append(values, b.Value)
			}
		}
		s := ScaleFor("us", slices.Max(values))
		lines, blocks := Lines{X: Axis{Title: "block", Scale: AxisLinear}, Y: on(s, "p50", AxisLog),
			Markers: true}, map[int]bool{}
		for _, c := range slice.Cells {
			for repeat := 0; ; repeat++ {
				series := Series{Label: l.Label(c.Cell, slice.Cells), Cell: c.Cell, Look: l.Look(c.Cell)}
				if repeat > 0 {
					series.Label += ", again"
				}
				for _, b := range c.BlockP50US {
					if b.Repeat == repeat && b.Value > 0 {
						blocks[b.Block+1] = true
						series.Points = append(series.Points,
							Point{X: float64(b.Block + 1), Y: b.Value / s.Div, Hollow: repeat > 0,
								At: fmt.Sprintf("block %d", b.Block+1), Text: s.Value(b.Value)})
					}
				}
				if len(series.Points) == 0 {
					break
				}
				slices.SortFunc(series.Points, func(a, b Point) int { return int(a.X - b.X) })
				lines.Series = append(lines.Series, series)
			}
		}
		for block := range blocks {
			lines.X.Ticks = append(lines.X.Ticks, Tick{float64(block), Count(block)})
		}
		slices.SortFunc(lines.X.Ticks, func(a, b Tick) int { return int(a.Value - b.Value) })
		if len(lines.Series) > 0 {
			out = append(out, Chart{Name: "The median of each cell in each block", Options: slice.Options,
				Initial: slice.Initial, Lines: &lines})
		}
	}
	return out
}

// publishedCharts draws published figures next to measured ones in the same
// unit.
func (k Kind) publishedCharts(f record.Findings) []Chart {
	l := LayoutOf(f)
	var units []string
	rows := map[string]*Intervals{}
	largest := map[string]float64{}
	for _, p := range f.Published {
		if p.Measured != nil && p.Measured.Unit == p.Unit && p.Figure > 0 {
			largest[p.Unit] = math.Max(largest[p.Unit], math.Max(p.Figure, p.Measured.High))
		}
	}
	for _, p := range f.Published {
		m := p.Measured
		if m == nil || m.Unit != p.Unit || !(p.Figure > 0) {
			continue
		}
		s := ScaleFor(p.Unit, largest[p.Unit])
		if rows[p.Unit] == nil {
			units, rows[p.Unit] = append(units, p.Unit), &Intervals{X: Axis{Title: s.Unit, Scale: AxisLinear}}
		}
		mark := p.Figure / s.Div
		text := Figure(*m, s).S
		if m.Verdict != record.VerdictInvalid {
			text = WithInterval(s, *m)
		}
		rows[p.Unit].Rows = append(rows[p.Unit].Rows, IntervalRow{
			Label: k.claim(f, p), Look: l.Look(m.Cell), Estimate: m.Estimate / s.Div, Low: m.Low / s.Div, High: m.High / s.Div,
			Hollow: !significant(m.Verdict), Empty: m.Verdict == record.VerdictInvalid, Text: s.Value(p.Figure) + " → " + text, Mark: &mark,
		})
	}
	var out []Chart
	for _, unit := range units {
		out = append(out, Chart{Name: "Published figures and measured ones with 95% intervals",
			Legend: []Key{{Text: "published", Shape: KeyMark}}, Intervals: rows[unit]})
	}
	return out
}
