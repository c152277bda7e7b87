package stat

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// DefaultPower is the share of runs that find a minimum detectable effect.
const DefaultPower = 0.8

// MinimumDetectable returns the smallest effect, in the estimate's unit, that a
// run with this scatter and this many blocks finds with the given power (0.8 if
// 0): an interval that excludes zero, and a value above the noise floor. It
// depends only on the estimate's standard error, not on its value, so it says
// how much "no difference" is worth. NaN if the error is unknown. The estimate
// must not be a [RelativeDifference], whose error is that of a logarithm.
//
// The estimate's level is the one at which the difference is called (see
// [Family.Level]), which may differ from that of the printed interval.
//
// The interval's part solves the noncentral t distribution for its
// noncentrality (Cohen, "Statistical Power Analysis for the Behavioral
// Sciences", 1988, chapter 2). The floor's part is the floor plus the t
// quantile of the power.
func MinimumDetectable(e Estimate, f Floor, power float64) float64 {
	if power <= 0 || power >= 1 || math.IsNaN(power) {
		power = DefaultPower
	}
	if !Finite(e.SE) || e.DF < 1 {
		return math.NaN()
	}
	effect := noncentrality(e.DF, e.Level, power) * e.SE
	if Finite(f.Value) {
		effect = math.Max(effect, f.Value+tQuantile(power, e.DF)*e.SE)
	}
	return effect
}

// noncentrality returns the effect size, in standard errors, that a two-sided t
// test at the level finds with the power.
func noncentrality(df, level, power float64) float64 {
	critical := tQuantile(1-(1-level)/2, df)
	low, high := 0.0, critical+tQuantile(power, df)+2
	for range 50 { // bisection: the power rises with the noncentrality
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
