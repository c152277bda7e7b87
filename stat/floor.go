package stat

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// A Floor is the A/A noise floor: the size of difference that two identical cells
// show. No overhead below it counts as real.
type Floor struct {
	// Value is the floor, in the unit of the pairs. NaN if nothing is known.
	Value float64
	// Bias is the mean A/A difference: near zero unless the second of two
	// identical trials is treated differently from the first.
	Bias   float64
	Blocks int
	// Systematic reports that the interval of the mean A/A difference excludes zero:
	// the two trials differ by more than chance.
	Systematic bool
	chance     float64 // standard error of the mean over blocks due to scatter
}

// aaScale is the variance of a trial minus the mean of two, relative to the variance
// of a trial minus another.
const aaScale = 0.75

// NoiseFloor computes the floor from the doubled baseline: each pair holds the first
// baseline trial of a block as Base and the second as Test.
//
// With d the differences inside the blocks, n blocks and t Student's quantile for n
// degrees of freedom, the floor is the larger of |mean(d)| and
// t * sqrt(3/4 * mean(d^2) / n). The first is what identical cells actually differed by. The second
// is the most that scatter would add by chance, at that level, to the mean over n
// blocks of one trial against the mean of two baselines. (The variance of a trial
// against the mean of two is 3/2 of a trial's, that of d is 2.) The second term
// measures scatter around zero, not around the mean, because the order inside a
// block is random and the true difference is therefore zero. That leaves n degrees
// of freedom rather than n-1, and gives a (high) floor even from a single block.
func NoiseFloor(aa []Pair, o Options) Floor {
	values := make([]float64, len(aa))
	for i, p := range aa {
		values[i] = p.Test - p.Base
	}
	d, _ := keepFinite(values)
	f := Floor{Value: math.NaN(), Bias: math.NaN(), Blocks: len(d)}
	if len(d) == 0 {
		return f
	}
	n := float64(len(d))
	largest := 0.0
	for _, v := range d {
		largest = math.Max(largest, math.Abs(v))
	}
	f.Bias = mean(d)
	if largest == 0 {
		f.Value = 0
		return f
	}
	var square float64 // sum of (d/largest)^2, to avoid overflow and underflow
	for _, v := range d {
		square += (v / largest) * (v / largest)
	}
	f.chance = largest * math.Sqrt(aaScale*square/n/n)
	chance := tQuantile(1-(1-o.level())/2, n) * largest * math.Sqrt(aaScale*square/n/n)
	f.Value = math.Max(math.Abs(f.Bias), chance)
	f.Systematic = len(d) >= 2 && meanOf(d, o).Excludes(0)
	return f
}

// P returns how often identical cells show a difference of a size by chance: 1 minus
// the level at which the floor would reach it. 1 if nothing is known.
func (f Floor) P(size float64) float64 {
	size = math.Abs(size)
	if math.IsNaN(f.Value) || f.Blocks == 0 || !(size > math.Abs(f.Bias)) {
		return 1
	}
	return 2 * distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(f.Blocks)}.CDF(-size/f.chance)
}

// AtLevel returns the floor raised to that of a confidence level. The floor itself
// is that of the level in its options, 0.95 by default.
func (f Floor) AtLevel(level float64) Floor {
	if f.Blocks == 0 {
		return f
	}
	return f.AtLeast(tQuantile(1-(1-level)/2, float64(f.Blocks)) * f.chance)
}

// Over returns the floor as a share of a level; unknown unless the level is
// positive.
func (f Floor) Over(level float64) Floor {
	if !(level > 0) || !Finite(level) {
		return Floor{Value: math.NaN(), Bias: math.NaN()}
	}
	f.Value, f.Bias, f.chance = f.Value/level, f.Bias/level, f.chance/level
	return f
}

// AtLeast returns the floor raised to v, such as the resolution of the measurement,
// if it lies below.
func (f Floor) AtLeast(v float64) Floor {
	if v > f.Value {
		f.Value = v
	}
	return f
}
