package stat

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// DefaultRate is the false discovery rate used if a [Family] names none.
const DefaultRate = 1 - DefaultLevel

// P returns the two-sided p-value of an estimate for a true value of zero: 1
// minus the level at which its interval would just reach zero. For Student's
// interval that is the p-value of the t test. For an asymmetric interval, such as
// those of quantiles in the far tail, the side towards zero counts. So P is below
// 1 - Level exactly where the interval excludes zero. It is 1 if there is no
// interval, and 0 if the interval has no width and the value is not zero.
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

// towardsZero returns the distance from the value to the end of the interval on
// the side of zero.
func (e Estimate) towardsZero() float64 {
	if e.Value < 0 {
		return e.High - e.Value
	}
	return e.Value - e.Low
}

// critical returns the half-width of Student's interval in standard errors.
func (e Estimate) critical() float64 { return tQuantile(1-(1-e.Level)/2, e.DF) }

// A Family holds the p-values of differences that share one error rate. A
// difference that is not real for another reason has 1.
//
// With twenty null differences, each tested at its own risk of 5%, most runs
// would call something real. So a family is tested by its false discovery rate
// (Benjamini and Hochberg, "Controlling the false discovery rate", J. Royal
// Statistical Society B 1995): on average over runs, at most 5% of the
// differences called real are null, and where all are null, at most 5% of runs
// call any real. That holds for differences that are independent or positively
// dependent (Benjamini and Yekutieli, Annals of Statistics 2001), as those of one
// trial's percentiles and those to one baseline are. To bound the risk of even
// one false call among real ones (Holm), intervals would have to be three times
// as wide for the 144 differences of a large study.
type Family []float64

// Limit returns the p-value up to which differences are called real, and their
// number; both are 0 if none is.
func (f Family) Limit(rate float64) (limit float64, found int) {
	p := slices.Sorted(slices.Values(f))
	for i, v := range p {
		if v <= rate*float64(i+1)/float64(len(p)) {
			limit, found = rate*float64(i+1)/float64(len(p)), i+1
		}
	}
	return limit, found
}

// Level returns the confidence level of the interval that must exclude zero for a
// difference of the family to be called real: for one that is called, or for one
// more.
func (f Family) Level(rate float64, called bool) float64 {
	_, found := f.Limit(rate)
	if !called {
		found++
	}
	return 1 - rate*float64(min(found, len(f)))/float64(len(f))
}
