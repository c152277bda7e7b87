package tuning

import (
	"math"
	"testing"
)

// A measure that is cut two hundred times over is estimated as such, and what is left
// can still be distinguished.
func TestDeepCuts(t *testing.T) {
	pushes := []float64{6000, 3000, 40, 20}
	var trials []Trial
	for block := range 4 {
		for cell, v := range pushes {
			trials = append(trials, Trial{Cell: cell, Block: block, Values: []float64{v * math.Exp(0.01*math.Sin(float64(3*block+cell)))}})
		}
	}
	for _, signed := range []bool{false, true} {
		p := &Problem{Space: Space{Levers: []Lever{{Name: "scope"}, {Name: "debounce"}}, Cells: []Point{{0, 0}, {0, 1}, {1, 0}, {1, 1}}},
			Measures: []Measure{{Name: "pushes", Weight: 1, Signed: signed}}, Rules: Rules{Trials: 40, Better: 0.05, Doubt: 0.1, Gain: 0.005, Seed: 1}}
		b := p.Believe(trials)
		goal := b.Goal(3).Value
		if !signed && (math.Abs(goal+0.9967) > 0.001 || math.Abs(b.goal[2]-b.goal[3]-math.Log(2)) > 0.1) {
			t.Errorf("6,000 pushes become 40 and 20: told as %.4f, and %.2f apart", goal, b.goal[2]-b.goal[3])
		}
		if signed && b.measures[0].scale.log { // noise around zero
			t.Error("a net use that is next to nothing is modelled by its logarithm")
		}
	}
}
