package analysis

import (
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/stat"
)

// Named returns the finding of a name from its definition, still without figures.
func (o *Observations) Named(name string, cell record.Cell) record.Finding {
	s := o.Plan.Study
	d := s.Kind.Findings().Must(name)
	return record.Finding{Name: name, Probe: d.Probe, Unit: s.UnitOf(d), Cell: cell}
}

// MinBlocks is the number of blocks that an interval requires.
const MinBlocks = 2

// findings lists every cell's findings: overheads first, then plain values.
func (o *Observations) findings(measures []Measure) []record.Finding {
	var out []record.Finding
	var family Family
	for _, m := range measures {
		if !m.Compared || o.Unread(m) {
			continue
		}
		for cell := range o.Plan.Cells {
			if base, ok := o.Baseline(cell); ok && !o.Skipped(cell) {
				f, d := o.added(cell, base, m)
				out, family = append(out, f), append(family, d)
			}
		}
	}
	family.Judge(out)
	for i := range out {
		o.DoubtLag(&out[i], family[i].measure, out[i].Estimate, family[i].cell, family[i].base)
	}
	for _, m := range measures {
		for cell := range o.Plan.Cells {
			if f, ok := o.Plain(cell, m); ok {
				out = append(out, f)
			}
		}
	}
	return out
}

// Unread reports whether no valid trial has a value of a measure, though there are valid
// trials: it was not read. For a percentile, too few observations count as a value.
func (o *Observations) Unread(m Measure) bool {
	valid := false
	for cell := range o.Plan.Cells {
		for _, t := range o.Valid(cell) {
			valid = true
			if m.Quantile > 0 || !math.IsNaN(m.Searched().Of(o, t)) {
				return false
			}
		}
	}
	return valid
}

// Apart estimates by how much one cell exceeds another, in absolute terms and as a share of the
// other, from the quantiles of all requests or from what each unit measured.
func (o *Observations) Apart(cell, base int, m Measure, level float64) (e, relative stat.Estimate) {
	options := stat.Options{Level: level, Say: m.Say, Resolution: o.Resolution(m, cell, base)}
	if m.Quantile > 0 {
		return stat.PooledDifference(o.quantileBlocks(cell, base), m.Quantile, options)
	}
	pairs := o.Pairs(cell, base, m)
	return stat.Difference(pairs, options), stat.RelativeDifference(pairs, options)
}

// overhead returns the finding of what a cell adds to its baseline, judged individually.
func (o *Observations) overhead(cell, base int, m Measure) record.Finding {
	out := o.Added(cell, base, []Measure{m})
	o.DoubtLag(&out[0], m, out[0].Estimate, cell, base)
	return out[0]
}

// added returns the finding of what a cell adds to its baseline, as if reported individually,
// and its difference.
func (o *Observations) added(cell, base int, m Measure) (record.Finding, Difference) {
	f := record.Finding{
		Name: m.Name + finding.Overhead, Probe: m.Probe, Unit: m.Unit,
		Cell: o.Short(cell), Against: o.Short(base),
	}
	e, relative := o.Apart(cell, base, m, stat.DefaultLevel)
	d := Difference{Estimate: e, Say: m.Say, OnePods: o.SamePods(), cell: cell, base: base, measure: m}
	f.Blocks = e.Blocks
	for _, c := range []int{cell, base} {
		if why, ok := o.never(c, m); ok {
			f.Verdict = record.VerdictInvalid
			f.Because(record.ReasonNotReached, why.At(o.Plan.Label(o.Plan.Cells[c])))
			return f, d
		}
	}
	if e.Blocks < MinBlocks || !e.Defined() {
		for _, c := range []int{cell, base} {
			if reason, why := o.valueless(c, m); reason != "" {
				f.Verdict = record.VerdictInvalid
				f.Because(reason, why)
				return f, d
			}
		}
		return Invalid(f, e.Blocks), d
	}
	var level float64
	d.Floor, level = o.Floor(base, m)
	f = d.Put(f, o.Margin(level))
	if relative.Defined() {
		f.Relative = &record.Ratio{Estimate: relative.Value, Low: relative.Low, High: relative.High}
	}
	if m.Partial != nil {
		for _, c := range []int{cell, base} {
			for _, n := range m.Partial(o, c) {
				f.Warnings = append(f.Warnings, n.At(o.Plan.Label(o.Plan.Cells[c])))
			}
		}
	}
	return f, d
}

// Plain returns the finding of a cell's own value, or false if the cell has none.
func (o *Observations) Plain(cell int, m Measure) (record.Finding, bool) {
	f := record.Finding{Name: m.Name, Probe: m.Probe, Unit: m.Unit, Cell: o.Short(cell), Verdict: record.VerdictMeasured}
	e, ok := o.Value(cell, m)
	if !ok {
		return f, false
	}
	f.Blocks = e.Blocks
	if m.Fault {
		return o.faults(f, cell, m), true
	}
	if why, ok := o.never(cell, m); ok {
		f.Verdict = record.VerdictInvalid
		f.Because(record.ReasonNotReached, why)
		return f, true
	}
	if e.Blocks < MinBlocks || !e.Defined() {
		if reason, why := o.valueless(cell, m); reason != "" {
			f.Verdict = record.VerdictInvalid
			f.Because(reason, why)
			return f, true
		}
		return Invalid(f, e.Blocks), true
	}
	f.Estimate, f.Low, f.High, f.Warnings = e.Value, e.Low, e.High, e.Warnings
	if !m.Signed {
		f.Low = max(0, e.Low) // with few, scattered blocks intervals extend below zero
	}
	if m.Net && f.Low <= 0 {
		f.Verdict = record.VerdictInconclusive
		below := noteIdleVaries.Of()
		if f.Estimate <= 0 {
			below = noteBelowIdle.Of(words.Quantity(-f.Estimate, f.Unit))
		}
		f.Warnings = append(f.Warnings, below)
	}
	if m.Warn != nil {
		f.Warnings = append(f.Warnings, m.Warn(o, cell)...)
	}
	return f, true
}

// Value returns a cell's own value, or false if no trial has one.
func (o *Observations) Value(cell int, m Measure) (stat.Estimate, bool) {
	options := stat.Options{Say: m.Say}
	if m.Quantile > 0 {
		e := stat.PooledQuantile(o.latencies(cell, bothTurns), m.Quantile, options)
		return e, e.Blocks > 0
	}
	values := o.Values(cell, m)
	if m.Typical {
		return stat.Typical(values, options), values != nil
	}
	return stat.Mean(values, options), values != nil
}

// Margin returns the study's margin for differences from a value, or 0 if it is unknown.
func (o *Observations) Margin(level float64) float64 {
	if !stat.Finite(level) {
		return 0
	}
	return float64(o.Plan.Study.Margin) * math.Abs(level)
}

// faults returns the finding of unwanted events per trial in a cell, with the range over
// trials as its interval. A single event makes it real.
func (o *Observations) faults(f record.Finding, cell int, m Measure) record.Finding {
	f.Low, f.Trials = math.Inf(1), &record.FaultTrials{}
	for _, t := range o.Valid(cell) {
		v := m.Of(o, t)
		if !stat.Finite(v) {
			continue
		}
		f.Trials.Of++
		if v > 0 {
			f.Trials.With++
		}
		f.Estimate += v
		f.Low, f.High = math.Min(f.Low, v), math.Max(f.High, v)
	}
	f.Estimate /= float64(f.Trials.Of) // at least one trial has a value
	if f.High > 0 {
		f.Verdict = record.VerdictReal
		if m.Warn != nil {
			f.Warnings = m.Warn(o, cell)
		}
	}
	return f
}

// valueless returns why a percentile of a cell with valid trials has no value: it lies among
// failed requests, or too few observations lie beyond it. The reason is empty if neither is
// the case.
func (o *Observations) valueless(cell int, m Measure) (reason string, why note.Note) {
	if len(o.Valid(cell)) == 0 {
		return "", why
	}
	if m.Quantile > 0 {
		units := o.latencies(cell, bothTurns)
		e, all := stat.PooledQuantile(units, m.Quantile, stat.Options{}), stat.Merge(units...)
		switch {
		case e.Blocks == 0 || e.Defined():
		case math.IsNaN(e.Value):
			return record.ReasonTooFew, e.Warnings[0]
		case math.IsInf(e.Value, 1):
			return record.ReasonNotReached, noteFailed.Of(all.Lost(), all.Total())
		case all.Lost() > 0 && e.Blocks >= MinBlocks:
			return record.ReasonNotReached, noteFailedSome.Of(all.Lost(), all.Total())
		}
		return "", why
	}
	if m.MinCount == 0 || o.Values(cell, m) != nil {
		return "", why
	}
	return record.ReasonTooFew, noteFewCounted.Of(m.Counted, m.MinCount)
}

// never calls the measure's Never, see [Measure].
func (o *Observations) never(cell int, m Measure) (why note.Note, ok bool) {
	if m.Never == nil {
		return why, false
	}
	return m.Never(o, cell)
}

// lacks reports whether a percentile of a cell has no value for lack of observations.
func (o *Observations) lacks(cell int, m Measure) bool {
	reason, _ := o.valueless(cell, m)
	return reason == record.ReasonTooFew
}

// Invalid returns a finding without a figure, for lack of valid trials.
func Invalid(f record.Finding, blocks int) record.Finding {
	f.Verdict = record.VerdictInvalid
	f.Warnings = append(f.Warnings, noteFewBlocks.Of(blocks, MinBlocks))
	return f
}

// Fitted returns the finding of a fitted line's intercept or slope, multiplied by scale.
func (o *Observations) Fitted(name string, cell record.Cell, e stat.Estimate, scale float64, warnings []note.Note) record.Finding {
	f := o.Named(name, cell)
	if f.Blocks = e.Blocks; e.Blocks < MinBlocks || !e.Defined() {
		return Invalid(f, e.Blocks)
	}
	f.Verdict, f.Estimate, f.Low, f.High = record.VerdictMeasured, e.Value*scale, e.Low*scale, e.High*scale
	f.Warnings = slices.Concat(e.Warnings, warnings)
	return f
}

// A Difference is an estimate with the references to judge it by.
type Difference struct {
	stat.Estimate
	Floor stat.Floor
	Say   func(float64) string

	// OnePods means that the same pods served all blocks: no interval includes their
	// particular properties, and only the floor tells how pods differ.
	OnePods bool

	cell, base int
	measure    Measure
}

// p returns the p-value of the difference: see [stat.Estimate.P].
func (d Difference) p() float64 {
	if d.OnePods {
		return math.Max(d.P(), d.Floor.P(d.Value))
	}
	return d.P()
}

// Put writes a defined difference into a finding: its estimate and interval in any case, and
// one of three answers: see [stat.Estimate.Call]. If the same pods served all blocks, nothing
// is real without a known floor.
func (d Difference) Put(f record.Finding, margin float64) record.Finding {
	switch {
	case d.OnePods && d.Floor.Blocks == 0:
		d.Floor.Value = math.NaN()
	case d.OnePods:
		d.Floor = d.Floor.AtLevel(d.Level)
	}
	f.Blocks, f.Estimate, f.Low, f.High, f.Warnings, f.Margin = d.Blocks, d.Value, d.Low, d.High, d.Warnings, margin
	call, why := d.CallIn(d.Floor, margin, d.Say)
	f.Verdict = string(call)
	if call != stat.Real {
		f.Because(why.Code, why)
	}
	return f
}

// A Family is a set of differences that are reported together and share one error rate.
type Family []Difference

// Judge revokes verdicts that are real only individually, for findings in the family's order,
// and sets the effect that each would have detected: see [stat.Family]. It does not change
// findings that are not differences.
func (all Family) Judge(findings []record.Finding) {
	var p stat.Family
	for i, d := range all {
		switch findings[i].Verdict {
		case record.VerdictReal:
			p = append(p, d.p())
		case record.VerdictNoEffect, record.VerdictInconclusive:
			p = append(p, 1)
		}
	}
	limit, _ := p.Limit(stat.DefaultRate)
	for i, d := range all {
		f := &findings[i]
		switch f.Verdict {
		case record.VerdictReal, record.VerdictNoEffect, record.VerdictInconclusive:
		default:
			continue // not a difference, or an unknown one
		}
		if f.Verdict == record.VerdictReal && d.p() > limit {
			f.Verdict = record.VerdictInconclusive
			f.Because(record.ReasonMany, noteMany.Of(len(p)))
			if math.Max(math.Abs(d.Low), math.Abs(d.High)) <= f.Margin {
				f.Verdict = record.VerdictNoEffect // whatever the sign, it does not matter
			}
		}
		d.Level = p.Level(stat.DefaultRate, f.Verdict == record.VerdictReal)
		if mde := stat.MinimumDetectable(d.Estimate, d.Floor, stat.DefaultPower); stat.Finite(mde) {
			f.MDE = mde
		}
	}
}

// maxLagRatio limits the generator's own lateness relative to a latency effect. Latency is
// measured from the intended time and so includes that lateness, which may be the effect
// itself if it is comparatively large.
const maxLagRatio = 0.25

// lateness returns how late the generator was in a cell at a measure's part of the
// distribution, in microseconds, as the median over the cell's trials: at the median for
// p50, at p90 for p90, and so on, and on average for a mean.
func (o *Observations) lateness(cell int, m Measure) float64 {
	var lags []float64
	for _, t := range o.Valid(cell) {
		if t.Load == nil || t.Load.Rate.IsMax() {
			continue // as fast as possible: no schedule
		}
		lags = append(lags, lagAt(t.Load.Lag, m))
	}
	if len(lags) == 0 {
		return 0
	}
	return stat.Median(lags)
}

func lagAt(lag record.Latency, m Measure) float64 {
	if m.Timed {
		return lag.Mean
	}
	return lag.At(record.Quantile(m.Quantile))
}

// DoubtLag revokes a verdict on a latency difference that the generator itself may have
// caused in one of the cells; the effect is in microseconds. It does not change other
// measures.
func (o *Observations) DoubtLag(f *record.Finding, m Measure, effect float64, cells ...int) {
	if m.Quantile == 0 && !m.Timed || f.Verdict != record.VerdictReal {
		return
	}
	lag := 0.0
	for _, cell := range cells {
		lag = math.Max(lag, o.lateness(cell, m))
	}
	if lag <= maxLagRatio*math.Abs(effect) {
		return
	}
	f.Verdict = record.VerdictInconclusive
	f.Because(record.ReasonLateLoad, noteLateLoad.Of(lag))
}
