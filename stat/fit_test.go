package stat

import (
	"math"
	"testing"
)

// A unit with a single rate has no line, regardless of rounding error in x and of the
// difference between two trials of one rate.
func TestUnitLinesOfOneRate(t *testing.T) {
	weight := func(x float64) float64 { return x }
	for name, points := range map[string][]FitPoint{
		"one trial":             {{X: 999.7, Y: 0.31, Level: 1000}},
		"the same three times":  {{X: 0.1, Y: 1, Level: 1}, {X: 0.1, Y: 2, Level: 1}, {X: 0.1, Y: 4, Level: 1}},
		"two trials of a level": {{X: 999.7, Y: 0.31, Level: 1000}, {X: 1000.2, Y: 0.35, Level: 1000}},
	} {
		if lines := UnitLines(points, weight); len(lines) != 1 || !math.IsNaN(lines[0].Slope) || !math.IsNaN(lines[0].Intercept) {
			t.Errorf("%s: %+v", name, lines)
		}
		if line := LinearFit(points, weight, Options{}); line.Slope.Defined() {
			t.Errorf("%s: %+v", name, line)
		}
	}
	two := UnitLines([]FitPoint{{X: 100, Y: 0.2, Level: 100}, {X: 1000, Y: 1.1, Level: 1000}}, weight)
	if math.Abs(two[0].Slope-0.001) > 1e-12 || math.Abs(two[0].Intercept-0.1) > 1e-9 {
		t.Errorf("%+v", two)
	}
}
