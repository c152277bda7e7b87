package stat

import (
	"fmt"
	"math"
	"sort"

	gonum "gonum.org/v1/gonum/stat"
)

// MinBeyond is the number of requests that must lie beyond a quantile before it is
// estimated. Requests in a queue are late together: of ten that lie beyond, many are of one
// burst, and intervals then cover 84% in simulation. With thirty they cover 91% and more.
const MinBeyond = 30

// Takes returns the number of requests that leaves [MinBeyond] of them beyond a quantile,
// from 0 to 1.
func Takes(q float64) int64 {
	return int64(math.Ceil(MinBeyond/math.Min(q, 1-q) - 1e-6)) // 1-0.9 is less than 0.1
}

// FarTail is the quantile from which differences have the widest of three intervals: see
// [PooledDifference].
const FarTail = 0.9

// PooledQuantile estimates the q-quantile (0 < q < 1) of the requests of all units
// together. A unit is what varies independently: a block, or all blocks of one deployment.
//
// The mean of the units' own quantiles is a different number: in the tail a unit's quantile
// rests on few requests and is biased, and more units do not help.
//
// Its interval contains two, both with Student's t over units. One comes from leaving out
// each unit in turn (the jackknife: Efron and Tibshirani, chapter 11), on logarithms:
// latencies are positive and their scatter grows with them. The other inverts the question,
// as Woodruff did ("Confidence intervals for medians and other position measures", J.
// American Statistical Association 1952): how much does the share of requests beyond the
// quantile vary from unit to unit, and which quantiles correspond to its bounds? In long
// tails it reaches farther up than down, where a jackknife underestimates the effect of
// bursts that the run did not see. It ends at the largest latency seen.
//
// With fewer than [MinBeyond] requests beyond the quantile the estimate is NaN, with a
// warning. It is +Inf if it lies among failed requests ([Counts.WithLost]), and so is the
// upper bound if it might.
func PooledQuantile(units []Counts, q float64, o Options) Estimate {
	p := newPool(units)
	e := p.begin(q, o)
	if math.IsNaN(e.Value) {
		return e
	}
	e.jackknife(len(p.units), o.differing(1/p.quantile(q, none), 0), func(out int) float64 { return math.Log(p.quantile(q, out)) })
	e.Value, e.Low, e.High = p.quantile(q, none), math.Exp(e.Low), math.Exp(e.High)
	if e.Defined() {
		low, high := p.position(q, e.Level)
		e.Low, e.High = math.Min(e.Low, low), math.Max(e.High, high)
	}
	return e
}

// A QuantileBlock holds the latency distributions of one block: every repeat
// of the baseline, and the cell under test.
type QuantileBlock struct {
	Base []Counts
	Test Counts
}

// PooledDifference estimates how much higher the q-quantile of the tested cell's pooled
// requests is than the baseline's, in the unit of the counts and as a fraction of the
// baseline's. Units are left out on both sides together, so that drift between them
// cancels.
//
// In the far tail the interval of the difference also contains two others. One combines the
// position intervals of both sides (see [PooledQuantile]) by recovering variances (Zou and
// Donner, "Construction of confidence limits about effect measures", Statistics in Medicine
// 2008), with the correlation of the sides from leaving units out. The other is Student's
// on the differences of the units' own quantiles. If two trials in twelve are ten times as
// slow, either alone determines the p99, so leaving one out changes nothing, and every
// fifth run would call such trials an effect. With fewer than six units it adds
// nothing to the others. The difference's SE is then the one whose Student's interval reaches as far on
// the side of zero.
func PooledDifference(units []QuantileBlock, q float64, o Options) (difference, relative Estimate) {
	var bases, tests []Counts
	lost := 0
	for _, u := range units {
		base := Merge(u.Base...)
		if base.Total() == 0 || u.Test.Total() == 0 {
			lost++
			continue
		}
		bases, tests = append(bases, base), append(tests, u.Test)
	}
	base, test := newPool(bases), newPool(tests)
	difference, other := base.begin(q, o), test.begin(q, o)
	if lost > 0 {
		difference.warn(noteLostBlocks, lost, len(units))
	}
	if math.IsNaN(difference.Value) || math.IsNaN(other.Value) {
		if !math.IsNaN(difference.Value) {
			difference.Warnings = other.Warnings
		}
		difference.Value = math.NaN()
		return difference, difference
	}
	relative = difference
	difference.jackknife(len(bases), o.differing(1, 1), func(out int) float64 { return test.quantile(q, out) - base.quantile(q, out) })
	if q >= FarTail && difference.Defined() {
		low, high := recovered(base, test, q, difference.Level)
		least, most := unitsApart(bases, tests, q, difference.Level)
		difference.Low, difference.High = min(difference.Low, low, least), max(difference.High, high, most)
		difference.SE = max(difference.SE, difference.towardsZero()/difference.critical())
	}
	relative.jackknife(len(bases), o.differing(1/base.quantile(q, none), 1/test.quantile(q, none)), func(out int) float64 {
		if b, t := base.quantile(q, out), test.quantile(q, out); b > 0 && t > 0 {
			return math.Log(t / b)
		}
		return math.NaN()
	})
	relative.Value, relative.Low, relative.High = math.Expm1(relative.Value), math.Expm1(relative.Low), math.Expm1(relative.High)
	if b := base.quantile(q, none); q >= FarTail && difference.Defined() && relative.Defined() && b > 0 {
		// What widens one widens the other.
		relative.Low, relative.High = math.Min(relative.Low, difference.Low/b), math.Max(relative.High, difference.High/b)
	}
	return difference, relative
}

// unitsApart returns Student's interval for the differences of the units' own quantiles.
// With few units, or if one has no quantile, it adds nothing to the others.
func unitsApart(bases, tests []Counts, q, level float64) (low, high float64) {
	d := make([]float64, len(bases))
	for i := range d {
		d[i] = tests[i].Quantile(q) - bases[i].Quantile(q)
	}
	e := Mean(d, Options{Level: level})
	if e.Blocks < 6 || e.Blocks < len(d) {
		return math.Inf(1), math.Inf(-1)
	}
	return e.Low, e.High
}

// recovered returns the interval of the difference of two pooled quantiles, from the
// intervals of both and their correlation.
func recovered(base, test pool, q, level float64) (low, high float64) {
	b, t := base.quantile(q, none), test.quantile(q, none)
	baseLow, baseHigh := base.position(q, level)
	testLow, testHigh := test.position(q, level)
	x, y := make([]float64, len(base.units)), make([]float64, len(base.units))
	for i := range x {
		x[i], y[i] = base.quantile(q, i), test.quantile(q, i)
	}
	together := gonum.Correlation(x, y, nil)
	if !Finite(together) {
		together = 0
	}
	reach := func(a, b float64) float64 { return math.Sqrt(math.Max(0, a*a+b*b-2*together*a*b)) }
	return t - b - reach(t-testLow, baseHigh-b), t - b + reach(testHigh-t, b-baseLow)
}

// position returns the interval of the pooled q-quantile of two or more units by Woodruff's
// method, within the values seen.
func (p pool) position(q, level float64) (low, high float64) {
	v := p.quantile(q, none)
	n, total := float64(len(p.units)), float64(p.all.Total())
	share := float64(p.all.below(v)) / total
	var square float64
	for _, u := range p.units {
		d := float64(u.below(v)) - share*float64(u.Total())
		square += d * d
	}
	reach := tQuantile(1-(1-level)/2, n-1) * math.Sqrt(square*n/(n-1)) / total
	return p.all.Quantile(math.Max(0, q-reach)), p.all.Quantile(math.Min(1, q+reach))
}

// PseudoQuantiles gives each unit a value for the q-quantile of all units' pooled requests
// (Tukey's pseudo-values, about the pooled quantile). Their mean is the pooled quantile,
// and their scatter the jackknife's, so sums and differences of quantiles can be estimated
// from them like any values of blocks. The exception is the far tail, where the jackknife
// alone is too narrow ([PooledDifference]). NaN for a unit without requests, and for all
// units if too few requests lie beyond.
func PseudoQuantiles(units []Counts, q float64) []float64 {
	out := make([]float64, len(units))
	for i := range out {
		out[i] = math.NaN()
	}
	p := newPool(units)
	if e := p.begin(q, Options{}); math.IsNaN(e.Value) {
		return out
	}
	value, without := p.quantile(q, none), make([]float64, len(p.units))
	if len(p.units) > 1 {
		for i := range without {
			without[i] = p.quantile(q, i)
		}
	}
	middle, at := mean(without), 0
	for i, u := range units {
		if u.Total() == 0 {
			continue
		}
		out[i] = value + float64(len(p.units)-1)*(middle-without[at])
		at++
	}
	return out
}

// pool is the sum of several distributions.
type pool struct {
	units []Counts
	all   Counts
}

func newPool(units []Counts) pool {
	var p pool
	for _, u := range units {
		if u.Total() > 0 {
			p.units = append(p.units, u)
		}
	}
	p.all = Merge(p.units...)
	return p
}

// begin returns an estimate of the pooled q-quantile without an interval yet; NaN if too
// few requests lie beyond.
func (p pool) begin(q float64, o Options) Estimate {
	e := Estimate{Value: math.NaN(), Low: math.Inf(-1), High: math.Inf(1), SE: math.NaN(), Level: o.level(), Blocks: len(p.units)}
	beyond := math.Min(q, 1-q) * float64(p.all.Total())
	switch {
	case !(q > 0 && q < 1):
		e.warn(noteBadQuantile, q)
	case len(p.units) == 0:
		e.warn(noteNoBlock)
	case p.all.Total() < Takes(q):
		e.warn(noteFewBeyond, quantileName(q), beyond, MinBeyond)
	default:
		e.Value = p.all.Quantile(q)
		if len(p.units) == 1 {
			e.warn(noteOneBlock)
		}
	}
	return e
}

// none leaves nothing out.
const none = -1

// quantile returns the q-quantile of all units but one.
func (p pool) quantile(q float64, out int) float64 {
	if out == none {
		return p.all.Quantile(q)
	}
	without := p.units[out]
	n := float64(p.all.Total() - without.Total())
	place := rankOf(q, n)
	low := math.Floor(place)
	a, b := p.at(int64(low), without), p.at(int64(low)+1, without)
	return line(a, b, place-low)
}

// at returns the value of a rank, from 1, among the values of all units but one.
func (p pool) at(rank int64, without Counts) float64 {
	rank = max(1, min(rank, p.all.Total()-without.Total()))
	i := sort.Search(len(p.all.values), func(i int) bool {
		return p.all.upto[i]-without.below(p.all.values[i]) >= rank
	})
	if i == len(p.all.values) {
		return math.Inf(1) // among failed requests
	}
	return p.all.values[i]
}

// jackknife completes an estimate of n units from its value and those with one of them left
// out: at(none), at(0), and so on.
func (e *Estimate) jackknife(n int, o Options, at func(out int) float64) {
	e.Value = at(none)
	if n < 2 {
		return
	}
	x := make([]float64, n)
	equal := true
	for i := range x {
		x[i] = at(i)
		equal = equal && x[i] == e.Value
	}
	if math.IsInf(e.Value, 1) {
		return
	}
	if equal && o.Resolution == 0 {
		e.SE, e.DF, e.Low, e.High = 0, float64(n-1), e.Value, e.Value
		e.warn(noteSame, n)
		return
	}
	m := mean(x)
	var square float64
	for _, v := range x {
		square += (v - m) * (v - m)
	}
	if !Finite(square) {
		return
	}
	e.DF = float64(n - 1)
	e.SE = math.Max(math.Sqrt(e.DF/float64(n)*square), o.rounding())
	half := tQuantile(1-(1-e.Level)/2, e.DF) * e.SE
	e.Low, e.High = e.Value-half, e.Value+half
	if n < 4 {
		e.warn(noteFewBlocks, n)
	}
}

// quantileName formats 0.999 as "p99.9".
func quantileName(q float64) string {
	return fmt.Sprintf("p%g", math.Round(q*1e7)/1e5)
}
