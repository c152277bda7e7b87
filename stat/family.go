package stat

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// DefaultRate is the false discovery rate of a [Family] that names none.
const DefaultRate = 1 - DefaultLevel

// P is the p-value of an estimate for a true value of zero, two-sided: 1 minus
// the level at which its interval would just reach zero. Of Student's interval it
// is that of the t test; of an interval that is wider on one side, as those of
// quantiles in the far tail are, the side towards zero counts. So it is below
// 1 - Level where the interval excludes zero, and only there. 1 if there is no
// interval, 0 if it has no width and is not zero.
func (e Estimate) P() float64 {
	if !e.Defined() || e.Value == 0 {
		return 1
	}
	towards := e.towardsZero()
	switch {
	case !(e.DF > 0):
		return 1
	case towards <= 0:
		return 0
	}
	t := e.critical() * math.Abs(e.Value) / towards
	return math.Min(1, 2*distuv.StudentsT{Mu: 0, Sigma: 1, Nu: e.DF}.CDF(-t))
}

// towardsZero is how far the interval reaches from the value on the side of zero.
func (e Estimate) towardsZero() float64 {
	if e.Value < 0 {
		return e.High - e.Value
	}
	return e.Value - e.Low
}

// critical is how many standard errors Student's interval reaches either way.
func (e Estimate) critical() float64 { return tQuantile(1-(1-e.Level)/2, e.DF) }

// A Family are the p-values of differences that share one error rate, 1 for those
// that are not called real for another reason.
//
// With twenty differences of nothing, each called real at a risk of its own of
// 5%, most runs would call something real. So the differences of a family are
// called by their false discovery rate (Benjamini and Hochberg, "Controlling the
// false discovery rate", J. Royal Statistical Society B 1995): of those called
// real 5% at most are none, on average over runs; where none is real, at most 5%
// of runs call any. That holds for differences that are independent or go up and
// down together (Benjamini and Yekutieli, Annals of Statistics 2001), as those of
// one trial's percentiles and those to one baseline do. Bounding the risk of a
// single false call among real ones as well (Holm) would take, of the 144
// differences of a large study, intervals three times as wide.
type Family []float64

// Limit is the p-value up to which differences are called real, and how many are;
// 0 and none if none is.
func (f Family) Limit(rate float64) (limit float64, found int) {
	p := slices.Sorted(slices.Values(f))
	for i, v := range p {
		if v <= rate*float64(i+1)/float64(len(p)) {
			limit, found = rate*float64(i+1)/float64(len(p)), i+1
		}
	}
	return limit, found
}

// Level is the confidence level of the interval that must exclude zero for a
// difference of the family to be called real: of one that is, or of one more.
func (f Family) Level(rate float64, called bool) float64 {
	_, found := f.Limit(rate)
	if !called {
		found++
	}
	return 1 - rate*float64(min(found, len(f)))/float64(len(f))
}
