package tuning

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// worth is the share of the objective that setting levers otherwise must bring to be
// recommended: each is a change to make, to watch and to remember.
const worth = 0.02

// moved is how many levers a cell has otherwise than the one in use.
func (s *Space) moved(cell int) int {
	n := 0
	for k, level := range s.Cells[cell] {
		if level != s.Cells[s.Base][k] {
			n++
		}
	}
	return n
}

// between says that a cell has each lever as one of the best has it, or as the one in use.
func (s *Space) between(cell, best int) bool {
	for k, level := range s.Cells[cell] {
		if level != s.Cells[best][k] && level != s.Cells[s.Base][k] {
			return false
		}
	}
	return true
}

// asGood says that a cell's objective is not above the best's by what is worth a lever, with
// so many standard deviations of what is known in its favour.
func (b *Belief) asGood(cell, best int, favour float64) bool {
	return b.goal[cell]-b.goal[best]-favour*b.apart(cell, best) <= math.Log1p(worth)
}

// spare is the cell to be recommended in place of the best: of those that were tried,
// meet the constraints and are as good, the one that moves the fewest levers.
func (b *Belief) spare(best int) int {
	space, out := &b.problem.Space, best
	for c := range b.goal {
		if !tried(b.trials, c) || b.Allowed(c) < Certain || !b.asGood(c, best, 0) {
			continue
		}
		if n, least := space.moved(c), space.moved(out); n < least || n == least && b.goal[c] < b.goal[out] {
			out = c
		}
	}
	return out
}

// spares are cells to try before the best is recommended: each leaves levers of it as in
// use, fewer moved ones than in any that was tried and is as good, and may well
// be as good and meet the constraints. Those with the fewest come first.
func (b *Belief) spares(best int) []Choice {
	space := &b.problem.Space
	most := space.moved(b.spare(best))
	var out []Choice
	for c := range b.goal {
		if space.moved(c) >= most || !space.between(c, best) || tried(b.trials, c) || hopeless(b.trials, c) || b.Allowed(c) < 0.5 || !b.asGood(c, best, 1) {
			continue
		}
		var left []string
		for k, level := range space.Cells[c] {
			if level != space.Cells[best][k] {
				left = append(left, space.Levers[k].Name)
			}
		}
		out = append(out, Choice{c, fmt.Sprintf("the best, but for %s as in use, may be as good", strings.Join(left, " and "))})
	}
	slices.SortStableFunc(out, func(x, y Choice) int {
		return cmp.Or(cmp.Compare(space.moved(x.Cell), space.moved(y.Cell)), cmp.Compare(b.goal[x.Cell], b.goal[y.Cell]))
	})
	return out
}
