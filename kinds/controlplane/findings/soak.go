package findings

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/stat"
)

// A soaked figure has one value per window of a soak, whose growth is of interest.
type soaked struct {
	slope, unit string
	measure     string // required measure of the study
	of          func(o *analysis.Observations, t *record.Trial) float64
	// life returns what windows of one series must share.
	life func(c *record.Control) string
	// share means that it grows by a share of itself: whatever slows it down is a factor.
	share bool
	// full means that it fills istiod's memory.
	full bool
}

func soakedFigures() []soaked {
	istiod := func(c *record.Control) string { return c.Life }
	converges := func(q float64) func(o *analysis.Observations, t *record.Trial) float64 {
		return func(o *analysis.Observations, t *record.Trial) float64 {
			if missedShare(o, []*record.Trial{t}, butZtunnels) > 1-q {
				return math.Inf(1) // among those that never had it
			}
			return reached(converged(o, t).acked, q)
		}
	}
	return []soaked{
		{controlplane.SlopeMemory, finding.UnitBytes, controlplane.MeasureCost, func(_ *analysis.Observations, t *record.Trial) float64 { return istiodMemory(t) }, istiod, false, true},
		{controlplane.SlopeHeap, finding.UnitBytes, controlplane.MeasureCost, ofControl(func(c *record.Control) float64 { return analysis.Positive(float64(c.LiveBytes)) }), istiod, false, false},
		{controlplane.SlopeSidecar, finding.UnitBytes, controlplane.MeasureCost, sidecarMemory, func(c *record.Control) string { return c.SidecarLife }, false, false},
		{controlplane.SlopeP50, finding.UnitMicroseconds, controlplane.MeasureConvergence, converges(0.5), istiod, true, false},
		{controlplane.SlopeP99, finding.UnitMicroseconds, controlplane.MeasureConvergence, converges(0.99), istiod, true, false},
	}
}

// sidecarMemory returns the memory of a real sidecar at the end of the window, as the mean over
// all.
func sidecarMemory(_ *analysis.Observations, t *record.Trial) float64 {
	if t.Control.RealProxies == 0 {
		return math.NaN()
	}
	m := t.Memory[record.PartServerProxy]
	return analysis.Positive(float64(cmp.Or(m.PSSBytes, m.CgroupBytes)) / float64(t.Control.RealProxies))
}

// A life is the sequence of valid windows of one istiod, or of one set of real sidecars.
type life []*record.Trial

// endOf returns when a window ended, in hours since 1970.
func endOf(t *record.Trial) float64 {
	return (float64(t.Window.Start.UnixMilli())/1e3 + t.Window.Seconds) / 3600
}

func (l life) hours() float64 { return endOf(l[len(l)-1]) - endOf(l[0]) }

// lives groups a run's windows by life, longest first. No slope spans two lives: a new istiod
// begins with empty caches.
func lives(o *analysis.Observations, of func(c *record.Control) string) []life {
	index, out := map[string]int{}, []life(nil)
	valid := slices.Clone(o.Valid(0))
	slices.SortStableFunc(valid, func(a, b *record.Trial) int { return a.Block - b.Block })
	for _, t := range valid {
		i, ok := index[of(t.Control)]
		if !ok {
			i = len(out)
			index[of(t.Control)], out = i, append(out, nil)
		}
		out[i] = append(out[i], t)
	}
	slices.SortStableFunc(out, func(a, b life) int { return cmp.Compare(b.hours(), a.hours()) })
	return out
}

// fromSoak returns the source of growth findings in a soak.
func fromSoak() analysis.Source {
	return analysis.Source{Of: finding.FromSoak, Add: func(o *analysis.Observations, f *record.Findings) {
		if c := controlplane.Of(o.Plan.Study); c == nil || !c.Soak {
			return
		}
		all := lives(o, func(c *record.Control) string { return c.Life })
		if len(all) == 0 {
			return
		}
		soak := &record.Soak{Hours: all[0].hours(), Windows: len(all[0]), Lives: len(all), MarginRatio: float64(o.Plan.Study.Margin)}
		for _, other := range all[1:] {
			soak.Elsewhere += len(other)
		}
		soak.LimitBytes, soak.LimitIs = memoryLimit(o, all[0])
		grown := growths(o)
		for _, g := range grown {
			x, out := g.tell(o, len(grown), soak)
			f.Findings, soak.Growths = append(f.Findings, x), append(soak.Growths, out)
		}
		f.Soak = soak
		f.Warnings = append(f.Warnings, noteOneIstiod.Of())
		if len(all) > 1 {
			f.Warnings = append(f.Warnings, noteLives.Of(len(all), soak.Elsewhere))
		}
	}}
}

// memoryLimit returns the limit of istiod's memory.
func memoryLimit(o *analysis.Observations, of life) (bytes int64, what string) {
	lever, _ := controlplane.LeverByName(controlplane.FactorIstiodMemory)
	level := o.Plan.Cells[0][controlplane.FactorIstiodMemory]
	if found, ok := of[0].Control.Installed[controlplane.FactorIstiodMemory]; ok && !lever.Sets(level) {
		level = found
	}
	if v, ok := lever.Value(level); ok && v > 0 {
		return int64(v), "istiod's memory limit of " + level
	}
	if bytes = o.Run.Header.Machine.MemoryBytes; bytes > 0 {
		return bytes, fmt.Sprintf("the machine's %s, as istiod has no memory limit", words.Quantity(float64(bytes), finding.UnitBytes))
	}
	return 0, ""
}

// soakRunFigures returns the growth rates used to compare runs.
func soakRunFigures(o *analysis.Observations) []analysis.RunFigure {
	if c := controlplane.Of(o.Plan.Study); c == nil || !c.Soak {
		return nil
	}
	var out []analysis.RunFigure
	all := growths(o)
	for _, g := range all {
		x, _ := g.tell(o, len(all), &record.Soak{})
		out = append(out, analysis.RunFigure{Finding: x, Compared: true, Decides: g.slope == controlplane.SlopeMemory || g.slope == controlplane.SlopeP50,
			Growth: g.perLevel})
	}
	return out
}

// perLevel returns the growth as a share of the figure itself.
func (g grown) perLevel(o stat.Options) stat.Estimate {
	e := stat.GrowthOf(g.scaled(), o).Slope
	if g.share {
		e.Value, e.Low, e.High = math.Expm1(e.Value), math.Expm1(e.Low), math.Expm1(e.High)
		return e
	}
	level := g.level(stat.Warm, 1)
	e.Value, e.Low, e.High = e.Value/level, e.Low/level, e.High/level
	return e
}

// A grown figure is a soaked figure with its series.
type grown struct {
	soaked
	points []stat.SeriesPoint // hours since the first window, and the value
	lost   int                // windows without a value
}

// growths returns the figures that windows have.
func growths(o *analysis.Observations) []grown {
	var out []grown
	for _, s := range soakedFigures() {
		all := lives(o, s.life)
		if len(all) == 0 || !o.Plan.Study.Measured(s.measure) {
			continue
		}
		g := grown{soaked: s}
		for _, t := range all[0] {
			if v := s.of(o, t); v > 0 && stat.Finite(v) {
				g.points = append(g.points, stat.SeriesPoint{X: endOf(t) - endOf(all[0][0]), Y: v})
			} else {
				g.lost++
			}
		}
		if len(g.points) > 0 {
			out = append(out, g)
		}
	}
	return out
}

// scaled returns the series on the scale on which it grows.
func (g grown) scaled() []stat.SeriesPoint {
	if !g.share {
		return g.points
	}
	out := slices.Clone(g.points)
	for i := range out {
		out[i].Y = math.Log(out[i].Y)
	}
	return out
}

// level returns the median of a stretch of the series, given as shares of its length.
func (g grown) level(from, to float64) float64 {
	first, last := g.points[0].X, g.points[len(g.points)-1].X
	var in []float64
	for _, p := range g.points {
		if at := p.X - first; at >= from*(last-first) && at <= to*(last-first) {
			in = append(in, p.Y)
		}
	}
	return analysis.Positive(medianOrNaN(in))
}

// tell returns the outcome of one of many figures.
func (g grown) tell(o *analysis.Observations, many int, soak *record.Soak) (record.Finding, record.Growth) {
	x := o.Named(g.slope, o.Short(0))
	out := record.Growth{Finding: g.slope, Unit: g.unit, First: known(g.level(0, stat.Warm)), Warm: known(g.level(stat.Warm, (1+stat.Warm)/2)), Last: known(g.level((1+stat.Warm)/2, 1))}
	for _, p := range g.points {
		out.Points = append(out.Points, record.CurvePoint{X: p.X, Y: p.Y})
	}
	level, margin := g.level(stat.Warm, 1), float64(o.Plan.Study.Margin)
	growth := stat.GrowthOf(g.scaled(), stat.Options{})
	allowed, per := margin*level, func(v float64) float64 { return v }
	if g.share {
		allowed, level, per = math.Log1p(margin), 1, math.Expm1
	}
	e := growth.Slope
	x.Blocks, x.Margin, x.Warnings = e.Blocks, per(allowed), e.Warnings
	if g.lost > 0 {
		x.Warnings = append(x.Warnings, noteWindowsLack.Of(g.lost, g.lost+len(g.points)))
	}
	if !stat.Finite(e.Value) {
		x.Verdict, x.Margin = record.VerdictInvalid, 0
		return x, out
	}
	x.Estimate, x.Low, x.High = per(e.Value), per(e.Low), per(e.High)
	if e.Defined() {
		x.Relative = &record.Ratio{Estimate: x.Estimate / level, Low: x.Low / level, High: x.High / level}
	} else {
		x.Low, x.High, x.Open = x.Estimate, x.Estimate, record.OpenBoth
	}
	g.judge(&x, growth, allowed, many)
	if x.Verdict == record.VerdictInconclusive {
		if needs := growth.Needs(allowed); stat.Finite(needs) {
			out.NeedsHours = needs
		}
	}
	if x.Verdict == record.VerdictReal && g.full && soak.LimitBytes > 0 {
		until := func(rate float64) float64 { return math.Max(0, float64(soak.LimitBytes)-out.Last) / rate }
		out.FullHours, out.FullLowHours, out.FullHighHours = until(x.Estimate), until(x.High), until(x.Low)
	}
	return x, out
}

// judge decides on the verdict of a growth. Among several figures one is more likely to grow by
// chance, so real growth also requires an interval with Bonferroni correction for their number.
func (g grown) judge(x *record.Finding, growth stat.Growth, margin float64, many int) {
	call, why := growth.Call(margin)
	x.Verdict = string(call)
	switch {
	case call == stat.Real && stat.GrowthOf(g.scaled(), stat.Options{Level: 1 - stat.DefaultRate/float64(many)}).Slope.Low <= 0:
		x.Verdict = record.VerdictInconclusive
		x.Because(record.ReasonMany, noteManyGrowths.Of(many))
	case why == stat.Settling:
		x.Because(record.ReasonSettling, why.Of())
	case why != nil:
		n := why.Of(words.Quantity(x.Margin, x.Unit))
		x.Because(n.Code, n)
	}
}
