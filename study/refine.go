package study

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"github.com/meshtrial/meshtrial/record"
)

// maxRefined limits the number of levels that a search adds between two given ones.
const maxRefined = 127

// between lists, in ascending order, the levels that a search may measure between two given ones.
// It halves each interval at the geometric mean, since levels are compared as ratios, until
// neighbours are within the tolerance.
func (f Factor) between(low, high, tolerance float64) []string {
	if !(low > 0 && high > low && tolerance > 0) {
		return nil
	}
	parts := 1
	for math.Pow(high/low, 1/float64(parts)) > 1+tolerance && parts <= maxRefined {
		parts *= 2
	}
	var out []string
	last := low
	for k := 1; k < parts; k++ {
		level, ok := f.near(low * math.Pow(high/low, float64(k)/float64(parts)))
		if !ok {
			continue
		}
		if v, _ := f.Value(level); v > last && v < high {
			out, last = append(out, level), v
		}
	}
	return out
}

// near returns a level close to a number in the factor's unit, as short as a person would write it:
// whole or with three digits. It returns false if there is none.
func (f Factor) near(v float64) (string, bool) {
	if !f.Integer {
		v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', 3, 64), 64)
	} else {
		v = math.Round(v)
	}
	text := strconv.FormatFloat(v, 'f', -1, 64)
	for _, unit := range []string{"", "s", "B"} {
		if level, c := f.Parse(text + unit); c == nil {
			_, ok := f.Value(level)
			return level, ok
		}
	}
	return "", false
}

// refinedLevels returns the levels between given ones that a search may add.
func (s *Study) refinedLevels(one Search) []string {
	factor, ok := FactorByName(one.Factor)
	if !ok {
		return nil
	}
	var out []string
	given := s.Levels(one.Factor)
	for i := 1; i < len(given); i++ {
		low, lowOK := factor.Value(given[i-1])
		high, highOK := factor.Value(given[i])
		if lowOK && highOK {
			out = append(out, factor.between(low, high, float64(one.Tolerance))...)
		}
	}
	return out
}

// asked reports whether to measure a combination of given levels. If every search is confined to
// certain levels, combinations outside all of them are not measured.
func (s *Study) asked(requested record.Cell) bool {
	for _, one := range s.Search {
		if requested.Has(one.At) {
			return true
		}
	}
	return len(s.Search) == 0
}

// refined lists, for all combinations of given levels, those with an intermediate level of a
// searched factor.
func (s *Study) refined(given []record.Cell) []record.Cell {
	var out []record.Cell
	for _, one := range s.Search {
		levels := s.refinedLevels(one)
		seen := map[string]bool{}
		for _, cell := range given {
			rest := cell.With(nil)
			delete(rest, one.Factor)
			if !cell.Has(one.At) || seen[rest.Key()] {
				continue
			}
			seen[rest.Key()] = true
			for _, level := range levels {
				out = append(out, rest.With(record.Cell{one.Factor: level}))
			}
		}
	}
	return out
}

// Refined reports whether a cell of the plan has a level that the study does not name, which a
// search measures only if needed.
func (p *Plan) Refined(cell record.Cell) bool {
	i, ok := p.Index(cell)
	return ok && i >= p.given
}

// Climb is one search along a factor. Its cells differ in nothing else.
type Climb struct {
	Search Search
	Factor Factor
	Cells  []int // indexes in the plan, in ascending order of levels
}

// Level returns a cell's level of the searched factor.
func (c Climb) Level(p *Plan, cell int) float64 {
	v, _ := c.Factor.Value(p.Cells[cell][c.Search.Factor])
	return v
}

// Apart returns the maximum distance between neighbouring levels of the search, relative to the
// lower one, after every halving. Adjacent whole numbers do not count, since nothing lies between
// them.
func (c Climb) Apart(p *Plan) float64 {
	apart := 0.0
	for i := 1; i < len(c.Cells); i++ {
		low, high := c.Level(p, c.Cells[i-1]), c.Level(p, c.Cells[i])
		if low > 0 && !(c.Factor.Integer && high-low <= 1) {
			apart = max(apart, high/low-1)
		}
	}
	return apart
}

// Climbs lists the searches of a study in order, one for each combination of the other factors'
// given levels.
func (p *Plan) Climbs() []Climb {
	var out []Climb
	for _, s := range p.Study.Search {
		factor, ok := FactorByName(s.Factor)
		if !ok {
			continue
		}
		from := len(out)
		at := map[string]int{}
		for i, cell := range p.Cells {
			if _, ok := factor.Value(cell[s.Factor]); !ok || !p.Study.Kind.Matches(cell, s.At) {
				continue
			}
			rest := cell.With(nil)
			delete(rest, s.Factor)
			k, ok := at[rest.Key()]
			if !ok && i >= p.given {
				continue // added by another search
			}
			if !ok {
				k = len(out)
				at[rest.Key()] = k
				out = append(out, Climb{Search: s, Factor: factor})
			}
			if s.Tolerance > 0 || i < p.given {
				out[k].Cells = append(out[k].Cells, i)
			}
		}
		for _, c := range out[from:] {
			slices.SortStableFunc(c.Cells, func(a, b int) int {
				return cmp.Compare(c.Level(p, a), c.Level(p, b))
			})
		}
	}
	return out
}
