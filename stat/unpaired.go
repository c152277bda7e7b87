package stat

import "math"

// Unpaired estimates the mean of b minus the mean of a for unpaired blocks,
// such as those of two runs, with Welch's interval (unequal variances; degrees
// of freedom after Satterthwaite). It is less precise than a paired difference.
func Unpaired(a, b []float64, o Options) Estimate {
	return newTwoSamples(a, b, o).difference()
}

// UnpairedRatio estimates mean(b)/mean(a) - 1 for unpaired blocks: how much
// larger b is, as a fraction of a. The interval is Fieller's ("Some problems in
// interval estimation", J. Royal Statistical Society B 1954), which takes the
// uncertainty of both means into account; the degrees of freedom are Welch's.
// It is unbounded, with a warning, if the mean of a may be zero, as a ratio to
// zero does not exist. A negative mean of a gives no ratio either.
func UnpairedRatio(a, b []float64, o Options) Estimate {
	return newTwoSamples(a, b, o).ratio()
}

// difference returns the mean of b minus the mean of a.
func (s twoSamples) difference() Estimate {
	e := s.Estimate
	if !Finite(e.SE) {
		if len(s.a) > 0 && len(s.b) > 0 {
			e.Value = s.meanB - s.meanA
		}
		return e
	}
	e.Value = s.meanB - s.meanA
	half := 0.0
	if e.SE > 0 {
		half = tQuantile(1-(1-e.Level)/2, e.DF) * e.SE
	}
	e.Low, e.High = e.Value-half, e.Value+half
	return e
}

// ratio returns mean(b)/mean(a) - 1.
func (s twoSamples) ratio() Estimate {
	e := s.Estimate
	if len(s.a) == 0 || len(s.b) == 0 {
		return e
	}
	if !(s.meanA > 0) {
		e.SE = math.NaN()
		e.warn(noteRatioReference)
		return e
	}
	ratio := s.meanB / s.meanA
	e.Value = ratio - 1
	if !Finite(e.SE) {
		return e
	}
	t := 0.0
	if e.SE > 0 {
		t = tQuantile(1-(1-e.Level)/2, e.DF)
	}
	g := t * t * s.varA / s.meanA / s.meanA
	e.SE = math.Sqrt(s.varB+ratio*ratio*s.varA) / s.meanA
	if g >= 1 {
		e.warn(noteRatioOpen)
		return e
	}
	half := t / s.meanA * math.Sqrt(s.varB*(1-g)+ratio*ratio*s.varA)
	e.Low, e.High = (ratio-half)/(1-g)-1, (ratio+half)/(1-g)-1
	return e
}

// twoSamples holds the inputs of an unpaired estimate: means, variances of the
// means, and an estimate without a value yet. Its SE is NaN unless both sides
// have two blocks.
type twoSamples struct {
	Estimate
	a, b         []float64
	meanA, meanB float64
	varA, varB   float64
}

func newTwoSamples(a, b []float64, o Options) twoSamples {
	var s twoSamples
	var lostA, lostB int
	s.a, lostA = keepFinite(a)
	s.b, lostB = keepFinite(b)
	s.Estimate = Estimate{
		Value: math.NaN(), Low: math.Inf(-1), High: math.Inf(1), SE: math.NaN(),
		Level: o.level(), Blocks: min(len(s.a), len(s.b)),
	}
	if lostA+lostB > 0 {
		s.warn(noteLostBlocks, lostA+lostB, len(a)+len(b))
	}
	if s.Blocks == 0 {
		s.warn(noteNoBlock)
		return s
	}
	s.meanA, s.meanB = mean(s.a), mean(s.b)
	if s.Blocks < 2 {
		s.warn(noteOneBlock)
		return s
	}
	var sa, sb float64
	s.meanA, sa = meanStdDev(s.a)
	s.meanB, sb = meanStdDev(s.b)
	na, nb := float64(len(s.a)), float64(len(s.b))
	s.varA, s.varB = o.variance(sa*sa/na), o.variance(sb*sb/nb)
	s.SE, s.DF = math.Sqrt(s.varA+s.varB), na+nb-2
	if s.SE == 0 {
		s.warn(noteSameRuns)
		return s
	}
	ra, rb := s.varA/(s.varA+s.varB), s.varB/(s.varA+s.varB)
	if df := 1 / (ra*ra/(na-1) + rb*rb/(nb-1)); Finite(df) {
		s.DF = df
	}
	return s
}
