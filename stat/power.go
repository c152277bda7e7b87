package stat

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// DefaultPower is the share of runs in which a minimum detectable effect is
// found.
const DefaultPower = 0.8

// MinimumDetectable returns the smallest effect, in the estimate's unit, that
// a run with this scatter and this many blocks finds with the given power
// (0.8 if 0): an interval that excludes zero, and a value above the noise
// floor. It depends on the estimate's standard error only, not on its value,
// so it says what "no difference" is worth. NaN if the error is unknown.
//
// The interval's part solves the noncentral t distribution for its
// noncentrality (Cohen, "Statistical Power Analysis for the Behavioral
// Sciences", 1988, chapter 2); the floor's part is the floor plus the
// t quantile of the power.
func MinimumDetectable(e Estimate, f Floor, power float64) float64 {
	if power <= 0 || power >= 1 || math.IsNaN(power) {
		power = DefaultPower
	}
	if !finite(e.SE) || e.DF < 1 {
		return math.NaN()
	}
	effect := noncentrality(e.DF, e.Level, power) * e.SE
	floor := f.Value
	if e.Log {
		floor = math.Log1p(floor)
	}
	if finite(floor) {
		effect = math.Max(effect, floor+tQuantile(power, e.DF)*e.SE)
	}
	if e.Log {
		return math.Expm1(effect)
	}
	return effect
}

// BlocksFor returns how many blocks a run with this scatter needs to find an
// effect of the given size (in the estimate's unit) with the given power, 0
// if that cannot be told, at most limit.
func BlocksFor(e Estimate, effect, power float64, limit int) int {
	if power <= 0 || power >= 1 || math.IsNaN(power) {
		power = DefaultPower
	}
	effect = math.Abs(effect)
	if e.Log {
		effect = math.Log1p(effect)
	}
	if !finite(e.SE) || e.DF < 1 || !(effect > 0) {
		return 0
	}
	sd := e.SE * math.Sqrt(float64(e.Blocks))
	for n := 2; n < limit; n++ {
		if noncentrality(float64(n-1), e.Level, power)*sd/math.Sqrt(float64(n)) <= effect {
			return n
		}
	}
	return limit
}

// noncentrality returns how many standard errors an effect must be for a
// two-sided t test at the level to find it with the power.
func noncentrality(df, level, power float64) float64 {
	critical := tQuantile(1-(1-level)/2, df)
	low, high := 0.0, critical+tQuantile(power, df)+2
	for range 50 { // halving: the power rises with the noncentrality
		mid := (low + high) / 2
		t := distuv.NoncentralT{Nu: df, Mu: mid}
		if 1-t.CDF(critical) < power {
			low = mid
		} else {
			high = mid
		}
	}
	return high
}
