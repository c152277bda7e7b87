package tuning

import (
	"math"
	"slices"
)

// Measure is a number that trials measure. Less is better.
type Measure struct {
	Name string
	// Weight is the measure's share in the objective; 0 for measures that are only
	// bounded or only reported.
	Weight float64
	// Signed says that values may be zero or negative, such as a small use less the
	// idle use.
	Signed bool
}

// Bound is a constraint. A measure's value must not exceed Limit, or, if Relative, must
// not exceed that of the cell in use by more than that share.
type Bound struct {
	Measure  int
	Limit    float64
	Relative bool
}

// Trial is a completed trial of a cell, in a block, with a value for each measure. NaN
// marks a value that was not measured; an invalid trial has only NaN.
type Trial struct {
	Cell, Block int
	Values      []float64
}

// Rules limit a search.
type Rules struct {
	// Trials is the maximum number of trials.
	Trials int
	// Better and Doubt end a search once the probability that a cell is better than the
	// best so far by more than a share Better is below Doubt.
	Better, Doubt float64
	// Gain ends it once no cell is expected to improve on the best by that share.
	Gain float64
	Seed uint64
}

// leastPerBlock and mostPerBlock bound the trials per block: few, so that the results
// of one block guide the next, but enough that the cell in use, which every block has,
// does not dominate.
const (
	leastPerBlock = 4
	mostPerBlock  = 12
	blocksAimed   = 4
)

// PerBlock returns the number of trials in a block of a search.
func (r Rules) PerBlock() int {
	return max(leastPerBlock, min(mostPerBlock, (r.Trials+blocksAimed-1)/blocksAimed))
}

// Problem describes what to tune.
type Problem struct {
	Space    Space
	Measures []Measure
	Bounds   []Bound
	Rules    Rules
}

// tried reports whether some trial of a cell is valid.
func tried(trials []Trial, cell int) bool {
	return slices.ContainsFunc(trials, func(t Trial) bool { return t.Cell == cell && t.believed() })
}

// believed reports whether a trial is valid: whether it has a value.
func (t Trial) believed() bool {
	return slices.ContainsFunc(t.Values, func(v float64) bool { return !math.IsNaN(v) })
}

// unusable reports whether a cell had two or more trials and none was valid.
func unusable(trials []Trial, cell int) bool {
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

// MostCells is the maximum number of cells of a grid: a belief holds the covariance of
// all pairs.
const MostCells = 1000

// Absent is the index of the level of a lever that has no meaning in a cell.
const Absent = -1

// Lever is one dimension of a grid.
type Lever struct {
	Name string
	// Places are the positions of its levels on a line from 0 to 1, so that neighbours
	// resemble each other; nil for levels without an order.
	Places []float64
}

// Point is a cell of a grid: the index of a level for each lever, or [Absent].
type Point []int

// Space is a grid: its levers, its cells, and the cell that is in use before tuning.
type Space struct {
	Levers []Lever
	Cells  []Point
	Base   int
}

// Places puts levels on a line by their values: by logarithm if all are positive, since
// levers act by ratios, and linearly otherwise. If a value is not finite, the levels have
// no order, and it returns nil.
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

// alike returns the similarity of two levels of a lever, from 0 to 1: the Matérn
// function of their distance (5/2), or equality if levels have no order.
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
