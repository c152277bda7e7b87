package stat

import (
	"math"
	"sort"
)

// A FitPoint is one trial of a line: what was set (a rate, say), what was
// measured (CPU), and in which block.
type FitPoint struct {
	X, Y  float64
	Block int
}

// A Line is y = Intercept + Slope * x: idle cost and cost of each further
// unit.
type Line struct {
	Intercept, Slope Estimate
	// Residual is the largest mean deviation from the line at any x, as a
	// share of the fitted value there.
	Residual float64
	Warnings []string
}

// LinearFit fits a line inside each block by least squares and estimates
// intercept and slope from the blocks' lines with Student's t: machine drift
// moves whole blocks, so that the points of a block are not independent facts
// but its line is one. Points weigh 1/weight(x)^2, weight being the size of
// their noise at x; nil weighs all alike. For CPU against rate noise grows
// with the rate. Blocks with fewer than two distinct x are left out.
func LinearFit(points []FitPoint, weight func(x float64) float64, o Options) Line {
	byBlock := map[int][]FitPoint{}
	for _, p := range points {
		if Finite(p.X) && Finite(p.Y) {
			byBlock[p.Block] = append(byBlock[p.Block], p)
		}
	}
	blocks := make([]int, 0, len(byBlock))
	for b := range byBlock {
		blocks = append(blocks, b)
	}
	sort.Ints(blocks)
	var a, b []float64
	deviation := map[float64][]float64{}
	for _, block := range blocks {
		intercept, slope := leastSquares(byBlock[block], weight)
		a, b = append(a, intercept), append(b, slope)
		for _, p := range byBlock[block] {
			fitted := intercept + slope*p.X
			if Finite(fitted) && fitted != 0 {
				deviation[p.X] = append(deviation[p.X], p.Y/fitted-1)
			}
		}
	}
	line := Line{Intercept: Mean(a, o), Slope: Mean(b, o)}
	line.Intercept.Method = "Student's t on intercepts of the blocks' lines"
	line.Slope.Method = "Student's t on slopes of the blocks' lines"
	bent := false
	for _, d := range deviation {
		m := mean(d)
		line.Residual = math.Max(line.Residual, math.Abs(m))
		bent = bent || math.Abs(m) > 0.1 && len(d) >= 2 && meanOf(d, o).Excludes(0)
	}
	if bent {
		line.Warnings = append(line.Warnings,
			"poor linear fit: do not rely on idle cost and slope")
	}
	return line
}

// leastSquares is the weighted straight line through points, NaN if x does
// not vary.
func leastSquares(points []FitPoint, weight func(float64) float64) (intercept, slope float64) {
	var sw, sx, sy float64
	w := make([]float64, len(points))
	for i, p := range points {
		w[i] = 1
		if weight != nil {
			if s := weight(p.X); s > 0 {
				w[i] = 1 / (s * s)
			}
		}
		sw += w[i]
		sx += w[i] * p.X
		sy += w[i] * p.Y
	}
	mx, my := sx/sw, sy/sw
	var sxx, sxy float64
	for i, p := range points {
		sxx += w[i] * (p.X - mx) * (p.X - mx)
		sxy += w[i] * (p.X - mx) * (p.Y - my)
	}
	if !(sxx > 0) {
		return math.NaN(), math.NaN()
	}
	slope = sxy / sxx
	return my - slope*mx, slope
}
