package tuning

import (
	"fmt"
	"math"
	"slices"
)

// Measure is a number that trials have, of which less is better.
type Measure struct {
	Name string
	// Weight is the measure's part in the objective; 0 for measures that are only
	// bounded, or only told.
	Weight float64
	// Signed says that values may lie at zero or below it, as a use less the idle one
	// does where it is small.
	Signed bool
	// Expected is what a simulation says of each cell; nil, or NaN in a cell, where
	// none does.
	Expected []float64
}

// Bound is a constraint: a measure's value must not exceed Limit, or, where it is
// Relative, that of the cell in use by more than that share.
type Bound struct {
	Measure  int
	Limit    float64
	Relative bool
}

// Trial is one that was made: of a cell, in a block, with a value for each measure. A
// value that is not a number was not measured; a trial that may not be believed has
// none.
type Trial struct {
	Cell, Block int
	Values      []float64
}

// Rules say when a search ends, and what it may take.
type Rules struct {
	// Trials is how many there may be.
	Trials int
	// Better and Doubt end a search once the probability that a cell is better than
	// the best so far by more than a share Better is below Doubt.
	Better, Doubt float64
	// Gain ends it once no cell is expected to improve on the best by that share.
	Gain float64
	Seed uint64
}

// leastPerBlock and mostPerBlock are how many trials a block has: few, so that the next
// ones are chosen by what these have said, and not so few that the cell in use, which
// every block has, is most of them.
const (
	leastPerBlock = 4
	mostPerBlock  = 12
	blocksAimed   = 4
)

// PerBlock is how many trials a block of a search has.
func (r Rules) PerBlock() int {
	return max(leastPerBlock, min(mostPerBlock, (r.Trials+blocksAimed-1)/blocksAimed))
}

// Problem is what is to be tuned.
type Problem struct {
	Space    Space
	Measures []Measure
	Bounds   []Bound
	Rules    Rules
}

// Check says what is wrong with a problem.
func (p *Problem) Check() error {
	if err := p.Space.check(); err != nil {
		return err
	}
	weight := 0.0
	for _, m := range p.Measures {
		if m.Weight < 0 || math.IsNaN(m.Weight) || math.IsInf(m.Weight, 0) {
			return fmt.Errorf("%s has the weight %g", m.Name, m.Weight)
		}
		if m.Expected != nil && len(m.Expected) != len(p.Space.Cells) {
			return fmt.Errorf("%s is expected in %d cells of %d", m.Name, len(m.Expected), len(p.Space.Cells))
		}
		weight += m.Weight
	}
	if weight == 0 {
		return fmt.Errorf("there is no objective")
	}
	for _, b := range p.Bounds {
		if b.Measure < 0 || b.Measure >= len(p.Measures) || math.IsNaN(b.Limit) {
			return fmt.Errorf("a bound of %g on measure %d, which there is not", b.Limit, b.Measure)
		}
	}
	if p.Rules.Trials < 1 {
		return fmt.Errorf("%d trials are none", p.Rules.Trials)
	}
	return nil
}

// spent is how many trials a search has had, believed or not.
func spent(trials []Trial) int { return len(trials) }

// tried says that a measure has a value in some trial of a cell.
func tried(trials []Trial, cell int) bool {
	return slices.ContainsFunc(trials, func(t Trial) bool { return t.Cell == cell && t.believed() })
}

// believed says that a trial has some value.
func (t Trial) believed() bool {
	return slices.ContainsFunc(t.Values, func(v float64) bool { return !math.IsNaN(v) })
}

// hopeless are cells whose trials were never believed, twice or more.
func hopeless(trials []Trial, cell int) bool {
	lost := 0
	for _, t := range trials {
		if t.Cell != cell {
			continue
		}
		if t.believed() {
			return false
		}
		lost++
	}
	return lost >= 2
}
