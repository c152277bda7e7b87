package tuning

import (
	"fmt"
	"math"
	"slices"
)

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

// check says what is wrong with a grid.
func (s Space) check() error {
	switch {
	case len(s.Cells) == 0 || len(s.Cells) > MostCells:
		return fmt.Errorf("a grid has 1 to %d cells, not %d", MostCells, len(s.Cells))
	case s.Base < 0 || s.Base >= len(s.Cells):
		return fmt.Errorf("cell %d, the one in use, is not in the grid", s.Base)
	}
	for i, c := range s.Cells {
		if len(c) != len(s.Levers) {
			return fmt.Errorf("cell %d has %d levels, and there are %d levers", i, len(c), len(s.Levers))
		}
		for k, level := range c {
			if level < Absent || s.Levers[k].Places != nil && level >= len(s.Levers[k].Places) {
				return fmt.Errorf("cell %d has level %d of %s, which there is not", i, level, s.Levers[k].Name)
			}
		}
	}
	return nil
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
