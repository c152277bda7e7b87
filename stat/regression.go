package stat

import (
	"math"
	"slices"
)

// Regression fits a line through points that are independent facts, each as noisy as it likes:
// servers of one kind, say. The intervals are Student's t on jackknifed standard errors, which
// hold where the noise grows with x. Units and levels of points do not count. With fewer
// than four points, or where one point alone tells the slope, the intervals are
// unbounded.
func Regression(points []FitPoint, o Options) Line {
	all := make([]FitPoint, 0, len(points))
	for _, p := range points {
		if Finite(p.X) && Finite(p.Y) {
			all = append(all, FitPoint{X: p.X, Y: p.Y})
		}
	}
	intercept, slope := leastSquares(all, nil)
	var a, b []float64
	for i := range all {
		one, other := leastSquares(slices.Delete(slices.Clone(all), i, i+1), nil)
		a, b = append(a, one), append(b, other)
	}
	return Line{Intercept: jackknifed(intercept, a, o), Slope: jackknifed(slope, b, o)}
}

// jackknifed is an estimate of a line with the same of all points but one each.
func jackknifed(value float64, without []float64, o Options) Estimate {
	n := float64(len(without))
	e := Estimate{Value: value, Low: math.Inf(-1), High: math.Inf(1), SE: math.NaN(), Level: o.level(), Blocks: len(without)}
	if n < 4 || slices.ContainsFunc(without, func(v float64) bool { return !Finite(v) }) {
		return e
	}
	center, sum := mean(without), 0.0
	for _, v := range without {
		sum += (v - center) * (v - center)
	}
	e.SE, e.DF = math.Sqrt(sum*(n-1)/n), n-2
	half := tQuantile(1-(1-e.Level)/2, e.DF) * e.SE
	e.Low, e.High = value-half, value+half
	return e
}
