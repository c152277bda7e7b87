package stat

import (
	"maps"
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/internal/note"
)

// A FitPoint is one trial of a line: its position (such as the achieved rate), the measured value
// (such as CPU), its level (such as the configured rate), and its unit: a block, or all blocks of
// one deployment.
type FitPoint struct {
	X, Y  float64
	Level float64
	Unit  int
}

// A Line is y = Intercept + Slope * x: the idle cost and the cost of each further unit.
type Line struct {
	Intercept, Slope Estimate
	// Residual is the largest mean deviation from the line at any level, as a
	// share of the fitted value there.
	Residual float64
	Warnings []note.Note
}

// LinearFit fits a line inside each unit by least squares and estimates intercept and slope from
// the units' lines with Student's t. Machine drift moves whole blocks, and properties of pods move
// whole deployments, so the points of a unit are not independent, but the units' lines are. A
// point's weight is 1/weight(x)^2, where weight(x) is the size of its noise at x; nil weighs all
// the same. For CPU against rate, noise grows with the rate. Units with fewer than two distinct x
// are left out. A fit is poor where units agree that the points of some level lie off the line.
func LinearFit(points []FitPoint, weight func(x float64) float64, o Options) Line {
	byUnit := unitPoints(points)
	var a, b []float64
	deviation := map[float64][]float64{}
	for _, line := range UnitLines(points, weight) {
		a, b = append(a, line.Intercept), append(b, line.Slope)
		own := map[float64][]float64{}
		for _, p := range byUnit[line.Unit] {
			fitted := line.Intercept + line.Slope*p.X
			if Finite(fitted) && fitted != 0 {
				own[p.Level] = append(own[p.Level], p.Y/fitted-1)
			}
		}
		for level, d := range own {
			deviation[level] = append(deviation[level], mean(d))
		}
	}
	line := Line{Intercept: Mean(a, o), Slope: Mean(b, o)}
	bent := false
	for _, d := range deviation {
		m := mean(d)
		line.Residual = math.Max(line.Residual, math.Abs(m))
		bent = bent || math.Abs(m) > 0.1 && len(d) >= 2 && meanOf(d, o).Excludes(0)
	}
	if bent {
		line.Warnings = append(line.Warnings, PoorFit.Of())
	}
	return line
}

// A UnitLine is the line of one unit; NaN if it has fewer than two distinct x.
type UnitLine struct {
	Unit             int
	Intercept, Slope float64
}

// UnitLines returns the lines that [LinearFit] averages.
func UnitLines(points []FitPoint, weight func(x float64) float64) []UnitLine {
	byUnit := unitPoints(points)
	var out []UnitLine
	for _, unit := range slices.Sorted(maps.Keys(byUnit)) {
		intercept, slope := leastSquares(byUnit[unit], weight)
		out = append(out, UnitLine{unit, intercept, slope})
	}
	return out
}

func unitPoints(points []FitPoint) map[int][]FitPoint {
	out := map[int][]FitPoint{}
	for _, p := range points {
		if Finite(p.X) && Finite(p.Y) {
			out[p.Unit] = append(out[p.Unit], p)
		}
	}
	return out
}

// varied reports whether points lie at different x: at two levels, if they have levels, and farther
// apart than rounding error explains.
func varied(points []FitPoint) bool {
	if len(points) == 0 {
		return false
	}
	low, high, level := points[0].X, points[0].X, false
	for _, p := range points {
		low, high = math.Min(low, p.X), math.Max(high, p.X)
		level = level || p.Level != points[0].Level || p.Level == 0
	}
	return level && high-low > 1e-9*math.Max(math.Abs(low), math.Abs(high))
}

// leastSquares returns the weighted straight line through points, NaN if x does not vary.
func leastSquares(points []FitPoint, weight func(float64) float64) (intercept, slope float64) {
	if !varied(points) {
		return math.NaN(), math.NaN()
	}
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
