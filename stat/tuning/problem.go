package tuning

import (
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

// MostCells is how many cells a grid may have: a belief holds what any two of them have
// to do with each other.
const MostCells = 1000

// Absent is the index of a level that a lever does not have in a cell, because it
// means nothing there.
const Absent = -1

// Lever is one dimension of a grid.
type Lever struct {
	Name string
	// Places are where its levels stand on a line from 0 to 1, so that neighbours are
	// alike; nil for levels that have no order.
	Places []float64
}

// Point is a cell of a grid: the index of a level for each lever, or [Absent].
type Point []int

// Space is a grid: its levers, the cells that there are, and the one that is in use
// before anything is tuned.
type Space struct {
	Levers []Lever
	Cells  []Point
	Base   int
}

// Places puts levels on a line by their values: by their logarithms where all are
// above zero, since levers work by ratios, and else in their order. A value that is
// not a number makes them levels without an order: nil.
func Places(values []float64) []float64 {
	if slices.ContainsFunc(values, func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }) {
		return nil
	}
	scaled := slices.Clone(values)
	if slices.Min(values) > 0 {
		for i, v := range values {
			scaled[i] = math.Log(v)
		}
	}
	low, high := slices.Min(scaled), slices.Max(scaled)
	if !(high > low) {
		return nil
	}
	for i, v := range scaled {
		scaled[i] = (v - low) / (high - low)
	}
	return scaled
}

// alike is how alike two levels of a lever are, from 0 to 1: Matérn's function of
// their distance (5/2), or whether they are the same where levels have no order.
func (l Lever) alike(a, b int, reach float64) float64 {
	switch {
	case a == b:
		return 1
	case a == Absent || b == Absent || l.Places == nil:
		return 0
	}
	d := math.Sqrt(5) * math.Abs(l.Places[a]-l.Places[b]) / reach
	return (1 + d + d*d/3) * math.Exp(-d)
}
