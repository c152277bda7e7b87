package stat

import "math"

// Components holds the standard deviations of a measure in a cell that every
// block measures twice, in two deployments of the same configuration, as shares
// of its value. NaN where the blocks cannot tell.
type Components struct {
	// Blocks is the variation between blocks that both deployments of a block
	// share, such as machine drift. It cancels in differences inside a block.
	Blocks float64
	// Deployments is what a deployment keeps for all of its blocks, Trials what
	// varies from trial to trial. If each block has its own deployments, the two
	// cannot be separated, and Deployments holds both together.
	Deployments, Trials float64
}

// VarianceComponents estimates the components from the blocks of each pair of
// deployments: Base is a trial of one, Test a trial of the other. It uses
// logarithms and leaves out pairs that are not positive. The model is nested
// random effects, block + deployment + trial, with mean squares equated to their
// expectations (analysis of variance; Searle, Casella and McCulloch, "Variance
// Components", 1992, chapter 4). A negative component counts as zero.
func VarianceComponents(units [][]Pair) Components {
	var differences, means []float64
	var within float64 // sum of squared deviations from the unit's mean
	spare := 0         // its degrees of freedom
	for _, blocks := range units {
		var own []float64
		for _, p := range blocks {
			if p.Base > 0 && p.Test > 0 && Finite(p.Base) && Finite(p.Test) {
				a, b := math.Log(p.Base), math.Log(p.Test)
				own = append(own, (b-a)/math.Sqrt2)
				means = append(means, (a+b)/2)
			}
		}
		if len(own) == 0 {
			continue
		}
		m := mean(own)
		for _, d := range own {
			within += (d - m) * (d - m)
		}
		spare += len(own) - 1
		differences = append(differences, own...)
	}
	c := Components{Blocks: math.NaN(), Deployments: math.NaN(), Trials: math.NaN()}
	if len(differences) < 2 {
		return c
	}
	var square float64 // about zero: identical deployments do not differ on average
	for _, d := range differences {
		square += d * d
	}
	both := square / float64(len(differences))
	c.Deployments = math.Sqrt(both)
	if spare > 0 && spare < len(differences) {
		trials := within / float64(spare)
		c.Trials = math.Sqrt(trials)
		c.Deployments = math.Sqrt(math.Max(0, both-trials))
	}
	_, sd := meanStdDev(means)
	c.Blocks = math.Sqrt(math.Max(0, sd*sd-both/2))
	return c
}
