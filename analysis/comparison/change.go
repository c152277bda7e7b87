package comparison

import (
	"fmt"
	"slices"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
)

// A pairing is one finding of the runs of side A and its counterpart in those of side B.
type pairing struct {
	a, b    sideFigure
	blocks  bool // values are those of blocks, with one run per side
	decides bool
	upward  bool // more is better
	typical bool // values of blocks are summarized by their median
	// noRatio means that A's value may be zero by a 95% interval, so the difference decides:
	// this is the same for intervals of all levels.
	noRatio bool
}

// A sideFigure is one finding over the runs of a side.
type sideFigure struct {
	finding record.Finding
	values  []float64  // of runs, or of a single run's blocks
	each    []*float64 // of all runs, nil if a run has none
	all     []*analysis.RunFigure
	// runs is the number of runs with the finding, and unreached the number of those in which
	// it lies among failed requests. In partly reached runs it has no interval, since it lies
	// there in some blocks, or in the baseline, which says nothing about its growth.
	runs, unreached, partly int
}

// newSideFigure combines a figure of each run of a side; nil stands for a run without it.
func newSideFigure(figures []*analysis.RunFigure, blocks bool) (sideFigure, bool) {
	side := sideFigure{}
	var sum int
	for _, f := range figures {
		var value *float64
		if f != nil {
			side.all = append(side.all, f)
			switch {
			case f.Unreached:
				side.unreached++
			case notReached(f.Finding):
				side.partly++
			case f.Finding.Verdict != record.VerdictInvalid:
				value = &f.Finding.Estimate
				side.values = append(side.values, f.Finding.Estimate)
				sum += f.Finding.Blocks
			}
		}
		side.each = append(side.each, value)
	}
	if len(side.all) == 0 {
		return side, false
	}
	side.runs = len(side.all)
	side.finding = side.all[0].Finding
	switch {
	case blocks:
		side.values, side.each = side.all[0].Blocks, nil
	case len(side.values) == 1:
		side.finding = side.all[slices.IndexFunc(side.all, func(f *analysis.RunFigure) bool { return f.Finding.Verdict != record.VerdictInvalid })].Finding
	case len(side.values) > 1:
		e := stat.Mean(side.values, stat.Options{})
		f := side.finding
		side.finding = record.Finding{Name: f.Name, Probe: f.Probe, Unit: f.Unit, Cell: f.Cell, Against: f.Against,
			Estimate: e.Value, Low: e.Low, High: e.High, Blocks: sum, Verdict: record.VerdictMeasured}
	}
	return side, true
}

// lostSide represents a figure that no run of a side has because the cell has no valid trials
// there; false if the reason is another.
func lostSide(runs []*analysis.RunFigures, reference *analysis.RunFigures, f record.Finding, blocks bool) (sideFigure, bool) {
	if !slices.ContainsFunc(runs, func(r *analysis.RunFigures) bool { return r.Lost(reference, f.Cell) }) {
		return sideFigure{}, false
	}
	lost := record.Finding{Name: f.Name, Probe: f.Probe, Unit: f.Unit, Cell: f.Cell, Against: f.Against}
	side := sideFigure{finding: analysis.Invalid(lost, 0), runs: len(runs)}
	if !blocks {
		side.each = make([]*float64, len(runs))
	}
	return side, true
}

// pairingsOf matches the findings of two sides; onlyA and onlyB count those that no run of the
// other side has. A deciding finding has a counterpart even if the other side lost all trials
// of its cell, as that is no reason to leave it out.
func pairingsOf(before, after []*analysis.RunFigures, blocks bool) (out []pairing, onlyA, onlyB int) {
	seen := map[string]bool{}
	of := func(runs []*analysis.RunFigures, reference *analysis.RunFigures, f record.Finding) []*analysis.RunFigure {
		figures := make([]*analysis.RunFigure, len(runs))
		for i, r := range runs {
			figures[i] = r.Counterpart(reference, f.Name, f.Cell)
		}
		return figures
	}
	for _, reference := range slices.Concat(before, after) {
		for i := range reference.Figures {
			f := &reference.Figures[i]
			key := f.Finding.Name + "\x00" + f.Finding.Cell.Key()
			if !f.Compared || seen[key] {
				continue
			}
			seen[key] = true
			p := pairing{blocks: blocks, decides: f.Decides, upward: f.MoreIsBetter, typical: f.Typical}
			var okA, okB bool
			p.a, okA = newSideFigure(of(before, reference, f.Finding), blocks)
			p.b, okB = newSideFigure(of(after, reference, f.Finding), blocks)
			ofA := slices.Contains(before, reference)
			switch {
			case ofA && okA && !okB && p.decides:
				p.b, okB = lostSide(after, reference, f.Finding, blocks)
			case !ofA && okA: // already reported under side A's name
				continue
			case !ofA && p.decides:
				p.a, okA = lostSide(before, reference, f.Finding, blocks)
			}
			switch {
			case okA && okB:
				out = append(out, p)
			case ofA:
				onlyA++
			default:
				onlyB++
			}
		}
	}
	return out, onlyA, onlyB
}

// shares divides the error rate among claims: four fifths for the deciding ones, the rest for
// the others; evenly if none decides or all do.
func shares(decides []bool) []float64 {
	n := 0
	for _, d := range decides {
		if d {
			n++
		}
	}
	out := make([]float64, len(decides))
	for i, d := range decides {
		switch {
		case n == 0 || n == len(decides):
			out[i] = 1
		case d:
			out[i] = 0.8 / float64(n)
		default:
			out[i] = 0.2 / float64(len(decides)-n)
		}
	}
	return out
}

func changes(pairings []pairing, margin float64) []Change {
	out := make([]Change, len(pairings))
	p, decides := make([]float64, len(pairings)), make([]bool, len(pairings))
	for i := range pairings {
		pair := &pairings[i]
		pair.noRatio = !pair.ratio(stat.Options{}).Defined()
		out[i], decides[i] = pair.change(margin), pair.decides
		switch {
		case !found(out[i].Verdict):
			p[i] = 1
		case pair.onlyOneReached():
			p[i] = 0
		default:
			p[i] = stat.PValue(stat.DefaultLevel, func(level float64) bool {
				return found(pair.verdictAt(stat.Options{Level: level}, margin))
			})
		}
	}
	for i, rate := range stat.Holm(p, shares(decides), ErrorRate) {
		c := &out[i]
		c.JointLevel = 1 - rate
		if found(c.Verdict) {
			c.Certain = p[i] <= rate
		} else {
			c.Certain = c.Verdict == pairings[i].verdictAt(stat.Options{Level: c.JointLevel}, margin)
		}
	}
	return out
}

func found(verdict string) bool {
	return verdict == record.VerdictBetter || verdict == record.VerdictWorse
}

// verdictAt returns the verdict on a change by intervals of a given level.
func (p pairing) verdictAt(o stat.Options, margin float64) string {
	_, verdict, _ := p.weigh(o, margin)
	return verdict
}

func (p pairing) change(margin float64) Change {
	f := p.a.finding
	c := Change{Name: f.Name, Cell: f.Cell, Against: f.Against, A: f, B: p.b.finding, ValuesA: p.a.each, ValuesB: p.b.each, Decides: p.decides}
	var e stat.Estimate
	e, c.Verdict, c.Why = p.weigh(stat.Options{}, margin)
	if e.Defined() {
		c.ChangeRatio, c.LowRatio, c.HighRatio, c.Bounded = e.Value, e.Low, e.High, true
	}
	return c
}

// weigh judges a pairing by intervals of a given level. The returned estimate is that of the
// ratio, undefined if there is none or it is not needed.
func (p pairing) weigh(o stat.Options, margin float64) (ratio stat.Estimate, verdict, why string) {
	none := stat.Mean(nil, o)
	a, b := p.a, p.b
	switch {
	case a.unreached == a.runs && b.unreached == b.runs:
		return none, record.VerdictInconclusive, "it was not reached, since requests failed or changes never came, in " + p.sideWords("both runs", "all runs")
	case a.partly+b.partly > 0:
		return none, record.VerdictInconclusive, "it was not reached, since requests failed or changes never came, in some blocks, or in the baseline, of " + p.partlyIn()
	case a.unreached+b.unreached > 0 && !p.onlyOneReached():
		return none, record.VerdictInconclusive, fmt.Sprintf("it was not reached, since requests failed or changes never came, in %d of %d runs of side A and %d of %d of side B", a.unreached, a.runs, b.unreached, b.runs)
	case p.onlyOneReached() && b.unreached > 0:
		return none, record.VerdictWorse, p.sideWords("run B: ", "side B: ") + b.all[0].Finding.Warnings[0].String()
	case p.onlyOneReached():
		return none, record.VerdictBetter, p.sideWords("run A: ", "side A: ") + a.all[0].Finding.Warnings[0].String()
	case p.grows():
		v, why := p.growth(o, margin)
		return none, v, why
	case p.blocks && (a.finding.Verdict == record.VerdictInvalid || b.finding.Verdict == record.VerdictInvalid), len(a.values) == 0, len(b.values) == 0:
		return none, record.VerdictInconclusive, "too few valid trials"
	case !p.blocks && len(a.values)+len(b.values) < 3:
		return none, record.VerdictInconclusive, "too few runs have a value"
	case a.within(margin) && b.within(margin):
		return none, record.VerdictSame, "no effect beyond the margin in " + p.sideWords("both runs", "any run")
	}
	ratio = p.ratio(o)
	if p.noRatio {
		verdict, why = p.withoutRatio(p.difference(o))
		return none, verdict, why
	}
	v, why := p.judge(ratio, margin)
	return ratio, string(v), why
}

// ratio estimates B/A - 1 from the printed values of blocks: their medians or means.
func (p pairing) ratio(o stat.Options) stat.Estimate {
	o.Resolution = max(p.a.step(), p.b.step())
	switch {
	case !p.blocks:
		return stat.BetweenRuns(p.a.values, p.b.values, o)
	case p.typical:
		return stat.TypicalRatio(p.a.values, p.b.values, o)
	}
	return stat.UnpairedRatio(p.a.values, p.b.values, o)
}

// difference estimates B - A in the same way.
func (p pairing) difference(o stat.Options) stat.Estimate {
	o.Resolution = max(p.a.step(), p.b.step())
	switch {
	case !p.blocks:
		return stat.BetweenRunsDifference(p.a.values, p.b.values, o)
	case p.typical:
		return stat.TypicalDifference(p.a.values, p.b.values, o)
	}
	return stat.Unpaired(p.a.values, p.b.values, o)
}

// step returns the coarsest step in which a side's values are read.
func (s sideFigure) step() (coarsest float64) {
	for _, f := range s.all {
		coarsest = max(coarsest, f.Step)
	}
	return coarsest
}

// partlyIn names the sides in which a percentile is only partly reached.
func (p pairing) partlyIn() string {
	switch {
	case p.a.partly > 0 && p.b.partly > 0:
		return p.sideWords("both runs", "runs of both sides")
	case p.a.partly > 0:
		return p.sideWords("run A", "runs of side A")
	}
	return p.sideWords("run B", "runs of side B")
}

// onlyOneReached reports whether a percentile lies among failed requests in all runs of one
// side and in none of the other, not even in part, which is worse than any value.
func (p pairing) onlyOneReached() bool {
	return p.a.partly+p.b.partly == 0 && (p.a.unreached == 0 && len(p.a.values) > 0 && p.a.finding.Verdict != record.VerdictInvalid && p.b.unreached == p.b.runs ||
		p.b.unreached == 0 && len(p.b.values) > 0 && p.b.finding.Verdict != record.VerdictInvalid && p.a.unreached == p.a.runs)
}

// sideWords chooses between the words for one run per side and for several.
func (p pairing) sideWords(one, several string) string {
	if p.blocks {
		return one
	}
	return several
}

// notReached reports whether a percentile, or that of its baseline, lies among failed requests
// in some or all blocks.
func notReached(f record.Finding) bool { return f.Reason == record.ReasonNotReached }

// within reports whether a finding is no effect in any run, by its study and by this margin.
func (s sideFigure) within(margin float64) bool {
	return !slices.ContainsFunc(s.all, func(one *analysis.RunFigure) bool {
		f := one.Finding
		return f.Verdict != record.VerdictNoEffect || f.Relative == nil || f.Relative.Low < -margin || f.Relative.High > margin
	})
}

// judge judges a change against the margin. Lower is better unless the measure says otherwise.
func (p pairing) judge(e stat.Estimate, margin float64) (stat.Verdict, string) {
	if p.upward {
		e.Value, e.Low, e.High = -e.Value, -e.High, -e.Low
	}
	v, why := stat.Judge(e, margin)
	if v == stat.Undetermined && !p.blocks && !e.Excludes(0) {
		why = "the interval is wider than the margin: more runs are needed"
	}
	return v, why
}

// withoutRatio judges a change from a value that may be zero to one that is not: a share of
// zero cannot be a margin.
func (p pairing) withoutRatio(e stat.Estimate) (verdict, why string) {
	something := p.b.finding.Verdict == record.VerdictReal
	if !p.blocks {
		something = p.b.finding.Low > 0
	}
	if e.Defined() && e.Low > 0 && something {
		verdict = record.VerdictWorse
		if p.upward {
			verdict = record.VerdictBetter
		}
		return verdict, "from what may be nothing to something"
	}
	return record.VerdictInconclusive, p.sideWords("run A's", "side A's") + " value is indistinguishable from zero, so the change has no ratio"
}

// grows reports whether the pairing is about how fast something grows in the runs.
func (p pairing) grows() bool { return len(p.a.all) > 0 && p.a.all[0].Growth != nil }

// growth judges how much faster something grows per hour on side B: the difference of its
// relative growths, in percentage points, against the margin. With one run per side it uses
// the intervals of both growths, with several the scatter between runs.
func (p pairing) growth(o stat.Options, margin float64) (verdict, why string) {
	a, b := p.a.shares(), p.b.shares()
	var e stat.Estimate
	switch {
	case len(a) == 0 || len(b) == 0:
		return record.VerdictInconclusive, "too few valid windows"
	case p.blocks:
		e = stat.Apart(p.a.all[0].Growth(o), p.b.all[0].Growth(o))
	case len(a)+len(b) < 3:
		return record.VerdictInconclusive, "too few runs have a value"
	default:
		e = stat.BetweenRunsDifference(a, b, o)
	}
	v, why := p.judge(e, margin)
	if e.Defined() {
		point := func(v float64) string { return words.Figures(100 * v) }
		why = fmt.Sprintf("B grows by %s (%s to %s) percentage points an hour more; %s", point(e.Value), point(e.Low), point(e.High), why)
	}
	return string(v), why
}

// shares returns the relative growth per hour in each run that has it.
func (s sideFigure) shares() (out []float64) {
	for _, f := range s.all {
		if growth := known(f); growth != nil {
			out = append(out, growth.Estimate)
		}
	}
	return out
}

// known returns a run's relative growth, or nil without an interval.
func known(f *analysis.RunFigure) *record.Ratio {
	if f.Finding.Verdict == record.VerdictInvalid {
		return nil
	}
	return f.Finding.Relative
}
