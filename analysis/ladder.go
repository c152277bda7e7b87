package analysis

import (
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/stat"
)

// mostBeyond bounds scores: what is ten times the bound, or never ends, is
// beyond it, and how far says nothing more.
const mostBeyond = 2.302585

// A ladder is what trials say of the levels of a climb: a score for each unit
// of blocks that varies on its own, and each level. A score is the logarithm of
// the value over the bound: below zero where the bound holds. NaN: nothing was
// measured.
//
// A level holds for sure where the interval of its scores' mean, by Student's t
// over units, is below zero, and breaks for sure where it is above. Since more
// load is never easier, a unit that did not measure a level may have the score of
// its next higher one there for the former, and of its next lower one for the
// latter: either errs towards the bound.
type ladder struct {
	levels    []float64
	tolerance float64
	units     [][]float64
	// least is how many units a level needs to be sure that no more trials are
	// made of it, most how many there may be in the end.
	least, most int
}

// leastSure is how many units measure a level, where there are so many, before it
// is left alone.
const leastSure = 3

// sureLevel is the confidence of a level's interval by which it is sure, at one
// look. Levels are looked at after each block, and those that are sure are left
// alone, which makes a wrong answer likelier than that of one look; two ends and
// scores of neighbouring levels, which err towards the bound, make it rarer. What
// comes of both is counted in TestSimulationSearch.
const sureLevel = 0.95

func known(score float64) bool { return !math.IsNaN(score) }

// scores are those of a level by unit. Where a unit did not measure it, they are
// of the nearest that it measured in a direction, 1 for up, or missing if that
// is 0.
func (l ladder) scores(level, direction int) []float64 {
	var out []float64
	for _, unit := range l.units {
		for i := level; i >= 0 && i < len(unit); i += direction {
			if known(unit[i]) {
				out = append(out, unit[i])
				break
			}
			if direction == 0 {
				break
			}
		}
	}
	return out
}

// sure says that a level holds (side -1) or breaks (side 1), or would if half of
// the units that are still to come had the spread of those there are: not all
// will measure this level.
func (l ladder) sure(level, side, units int) bool {
	for _, scores := range [][]float64{append(l.scores(level, 0), l.contrary(level, side)...), l.scores(level, -side)} {
		if len(scores) >= MinBlocks && float64(side)*stat.Average(scores) > stat.Reach(scores, (units+len(scores)+1)/2, sureLevel) {
			return true
		}
	}
	return false
}

// contrary are the scores of units that did not measure a level, but one beyond
// it on a side, where that answered against what the side says.
func (l ladder) contrary(level, side int) []float64 {
	var out []float64
	for _, unit := range l.units {
		if known(unit[level]) {
			continue
		}
		for i := level; i >= 0 && i < len(unit); i += side {
			if known(unit[i]) {
				if float64(side)*unit[i] < 0 {
					out = append(out, unit[i])
				}
				break
			}
		}
	}
	return out
}

// measured is how many units have a score of any level.
func (l ladder) measured() (n int) {
	for _, unit := range l.units {
		if slices.ContainsFunc(unit, known) {
			n++
		}
	}
	return n
}

// holds and breaks are what is sure by now.
func (l ladder) holds(level int) bool  { return l.sure(level, -1, 0) }
func (l ladder) breaks(level int) bool { return l.sure(level, 1, 0) }

// pivot is where scores change their sign on balance: the highest measured
// level below, -1 for none, and the lowest above, len(levels) for none.
func (l ladder) pivot() (low, high int) {
	sums := make([]float64, len(l.levels))
	measured := make([]bool, len(l.levels))
	for _, unit := range l.units {
		for i, score := range unit {
			if known(score) {
				measured[i] = true
				sums[i] += math.Max(-math.Ln2, math.Min(math.Ln2, score))
			}
		}
	}
	at, sum, best := -1, 0.0, 0.0
	for i, one := range sums {
		if sum += one; sum < best {
			at, best = i, sum
		}
	}
	low, high = at, len(l.levels)
	for i := len(l.levels) - 1; i > at; i-- {
		if measured[i] {
			high = i
		}
	}
	return low, high
}

// interval is the highest level that holds for sure and the lowest that breaks
// for sure, -1 and len(levels) where there is none. Where both are said of
// levels in the wrong order neither is believed. At a cliff both ends move one
// level out: few answers that agree prove little more than that the limit is near.
func (l ladder) interval() (low, high int) {
	low, high = -1, len(l.levels)
	for i := range l.levels {
		if l.breaks(i) {
			break
		}
		if l.holds(i) {
			low = i
		}
	}
	for i := len(l.levels) - 1; i > low && !l.holds(i); i-- {
		if l.breaks(i) {
			high = i
		}
	}
	if low >= 0 && high < len(l.levels) && l.levels[high] < wideCliff*l.levels[low] && l.cliff(low, high) {
		low, high = low-1, high+1
	}
	return low, high
}

// wideCliff is the ratio of two levels from which on what trials and pods differ
// by seldom reaches from one to the other.
const wideCliff = 1.25

// cliff says that the value grows tenfold or more between two levels, as where
// what is searched dies: then none tells how near the limit is.
func (l ladder) cliff(low, high int) bool {
	below, above := l.scores(low, 0), l.scores(high, 0)
	return len(below) > 0 && len(above) > 0 && stat.Average(above)-stat.Average(below) >= mostBeyond
}

// again is the level that a later block needs next, given what earlier ones
// said; now has this block's own trials too, of which done tells.
//
// The block measures both sides of the limit as they are known so far, unless
// what they answer is sure. Where an answer is so near the bound that all the
// study's blocks would not make it sure, it goes on outward, by one step, two,
// four.
func (l ladder) again(now ladder, done func(level int) Answer) (level int, ok bool) {
	low, high := l.pivot()
	if low >= 0 && high < len(l.levels) && l.levels[high] > l.levels[low]*(1+l.tolerance) && l.tolerance > 0 {
		if i := l.middle(low, high); i > low && done(i) == Untried {
			return i, true
		}
	}
	for _, side := range []int{-1, 1} {
		i := low
		if side > 0 {
			i = high
		}
		for step := 1; i >= 0 && i < len(l.levels); step *= 2 {
			if len(l.scores(i, -side)) >= l.least && l.sure(i, side, 0) {
				break
			}
			if done(i) == Untried {
				return i, true
			}
			if now.sure(i, side, l.most) || side > 0 && done(i) == Crowded {
				break
			}
			last := i
			if i = max(0, min(len(l.levels)-1, i+side*step)); i == last {
				break
			}
		}
	}
	return 0, false
}

// middle is the level nearest to the geometric mean of two, low if there is
// none between them.
func (l ladder) middle(low, high int) int {
	best, distance := low, math.Inf(1)
	middle := (math.Log(l.levels[low]) + math.Log(l.levels[high])) / 2
	for i := low + 1; i < high; i++ {
		if d := math.Abs(math.Log(l.levels[i]) - middle); d < distance {
			best, distance = i, d
		}
	}
	return best
}

// climb is the level that a first block tries next: up to the first that breaks
// the bound, down to one that holds, and then by halves between the two. given
// are the levels that the study names.
func (l ladder) climb(all []Verdict, given func(level int) bool) (level int, ok bool) {
	low, high := -1, len(all)
	for i, v := range all {
		if v.Answer == Held {
			low = i
		}
	}
	for i := len(all) - 1; i > low; i-- {
		if all[i].Answer == Broke || all[i].Answer == Crowded {
			high = i
		}
	}
	open := func(i int) bool { return i > low && i < high && all[i].Answer == Untried }
	switch {
	case low < 0 && high < len(all): // down to what may hold
		for i := high - 1; i >= 0; i-- {
			if given(i) && open(i) {
				return i, true
			}
		}
		return 0, false
	case low < 0 || high == len(all):
		return firstOf(all, func(i int) bool { return given(i) && open(i) })
	case l.levels[high] <= l.levels[low]*(1+l.tolerance):
		return 0, false
	}
	best, distance := 0, math.Inf(1)
	for i := low + 1; i < high; i++ {
		if !open(i) {
			continue
		}
		if d := math.Abs(math.Log(l.levels[i]) - (math.Log(l.levels[low])+math.Log(l.levels[high]))/2); !(d >= distance) {
			best, distance, ok = i, d, true
		}
	}
	return best, ok
}

func firstOf(all []Verdict, is func(int) bool) (int, bool) {
	for i := range all {
		if is(i) {
			return i, true
		}
	}
	return 0, false
}
