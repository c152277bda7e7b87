package stat

import "math"

// TypicalRatio estimates Typical(b)/Typical(a) - 1 for unpaired blocks: how much larger
// the median of b is, as a fraction of that of a. It combines the intervals of both
// medians on logarithms (MOVER: Zou and Donner, "Construction of confidence limits about
// effect measures: a general approach", Statistics in Medicine 2008). It is unbounded if
// either reaches down to zero.
func TypicalRatio(a, b []float64, o Options) Estimate {
	x, y := Typical(a, o), Typical(b, o)
	if !(x.Low > 0 && y.Low > 0) {
		e := typicalChange(Estimate{Value: math.NaN(), Low: math.Inf(-1), High: math.Inf(1), Level: o.level()}, x, y)
		e.warn(noteRatioZero)
		return e
	}
	for _, e := range []*Estimate{&x, &y} {
		e.Value, e.Low, e.High = math.Log(e.Value), math.Log(e.Low), math.Log(e.High)
	}
	e := Apart(x, y)
	e.Value, e.Low, e.High = math.Expm1(e.Value), math.Expm1(e.Low), math.Expm1(e.High)
	return e
}

// TypicalDifference estimates the median of b minus that of a, with an interval combined
// in the same way.
func TypicalDifference(a, b []float64, o Options) Estimate {
	return Apart(Typical(a, o), Typical(b, o))
}

// Apart returns y minus x for independent estimates, with an interval combined from
// both (MOVER, see [TypicalRatio]).
func Apart(x, y Estimate) Estimate {
	e := Estimate{Value: y.Value - x.Value, Level: x.Level}
	e.Low = e.Value - math.Hypot(y.Value-y.Low, x.High-x.Value)
	e.High = e.Value + math.Hypot(y.High-y.Value, x.Value-x.Low)
	return typicalChange(e, x, y)
}

// typicalChange completes the difference e of x and y with the standard error that its interval
// implies.
func typicalChange(e, x, y Estimate) Estimate {
	e.SE, e.Blocks = math.NaN(), min(x.Blocks, y.Blocks)
	if e.Low < e.High && Finite(e.High-e.Low) {
		e.SE = (e.High - e.Low) / 2 / tQuantile(1-(1-e.Level)/2, float64(max(1, x.Blocks+y.Blocks-2)))
	}
	return e
}
