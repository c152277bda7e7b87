package comparison

import (
	"fmt"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
)

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
