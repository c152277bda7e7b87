package runner

import (
	"cmp"
	"slices"

	"github.com/meshmark/meshmark/record"
	"github.com/meshmark/meshmark/study"
)

// A study that searches for the highest levels within a bound measures its
// cells from low levels to high ones, and leaves out those above a cell that
// breaks the bound: more proxies, or more changes a second, would only break
// it more.

// climb returns the places of a block's slots in the order to measure them:
// as planned, or for a study that searches from low levels to high ones.
func (r *run) climb(slots []study.Slot) []int {
	order := make([]int, len(slots))
	for i := range order {
		order[i] = i
	}
	if len(r.o.Study.Search) == 0 {
		return order
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := r.heights(r.plan.Cells[slots[a].Cell]), r.heights(r.plan.Cells[slots[b].Cell])
		return slices.CompareFunc(x, y, func(v, w float64) int { return cmp.Compare(v, w) })
	})
	return order
}

// searched are the factors that the study searches along.
func (r *run) searched() []string {
	var out []string
	for _, s := range r.o.Study.Search {
		if !slices.Contains(out, s.Factor) {
			out = append(out, s.Factor)
		}
	}
	return out
}

// heights are a cell's levels of the searched factors.
func (r *run) heights(cell record.Cell) []float64 {
	var out []float64
	for _, name := range r.searched() {
		factor, _ := study.FactorByName(name)
		v, _ := factor.Value(cell[name]) // words are below all numbers: they are not searched
		out = append(out, v)
	}
	return out
}

// needless names the cell that breaks a bound already below this one; false
// if there is none, so that this one must be measured.
func (r *run) needless(cell record.Cell) (record.Cell, bool) {
	if len(r.o.Study.Search) == 0 || r.o.Beyond == nil {
		return nil, false
	}
	searched := r.searched()
	for _, broken := range r.beyond() {
		if broken.Key() == cell.Key() || !sameBut(cell, broken, searched) {
			continue
		}
		above := true
		x, y := r.heights(cell), r.heights(broken)
		for i := range x {
			above = above && x[i] >= y[i]
		}
		if above {
			return broken, true
		}
	}
	return nil, false
}

// beyond are the cells that break a bound, by the trials so far.
func (r *run) beyond() []record.Cell {
	if r.broken == nil || r.brokenAt != len(r.trials) {
		r.broken, r.brokenAt = r.o.Beyond(r.plan, r.memory()), len(r.trials)
	}
	return r.broken
}

// sameBut tells whether two cells agree in all but some factors.
func sameBut(a, b record.Cell, factors []string) bool {
	if len(a) != len(b) {
		return false
	}
	for factor, level := range a {
		if b[factor] != level && !slices.Contains(factors, factor) {
			return false
		}
	}
	return true
}
