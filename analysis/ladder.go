package analysis

import (
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/stat"
)

// mostBeyond is the maximum score: a value ten times the bound, or one that never
// ends, is beyond it, and how far does not matter.
const mostBeyond = 2.302585

// A ladder holds what trials say about the levels of a climb: a score for each
// level in each unit of blocks that varies independently. A score is the logarithm
// of value over bound: below zero if the bound holds, NaN if nothing was measured.
//
// A level certainly holds if the interval of its scores' mean (Student's t over
// units) is below zero, and certainly breaks if the interval is above zero. More
// load is never easier. For holding, a unit that did not measure a level may
// therefore use the score of its next higher level, and for breaking that of its
// next lower level: both err towards the bound.
type ladder struct {
	levels    []float64
	tolerance float64
	units     [][]float64
	// least is the number of units that must measure a level before it can be
	// certain enough to need no more trials; most is the final number of units.
	least, most int
}

// leastSure is the number of units that must measure a level, if there are that
// many, before it needs no more trials.
const leastSure = 3

// sureLevel is the confidence level of the interval by which a level is certain,
// for a single look. Levels are examined after each block and then left alone once
// they are certain, which makes errors more likely than with a single look. Using
// two ends, and scores of neighbouring levels that err towards the bound, makes
// errors rarer. TestSimulationSearch counts the combined effect.
const sureLevel = 0.95

func known(score float64) bool { return !math.IsNaN(score) }

// scores returns a level's scores by unit. For a unit that did not measure the
// level, it uses the nearest level measured in a direction (1 is up), or nothing
// if direction is 0.
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

// sure reports whether a level certainly holds (side -1) or breaks (side 1), or
// would if half of the remaining units had the same spread as the existing ones:
// not all of them will measure this level.
func (l ladder) sure(level, side, units int) bool {
	for _, scores := range [][]float64{append(l.scores(level, 0), l.contrary(level, side)...), l.scores(level, -side)} {
		if len(scores) >= MinBlocks && float64(side)*stat.Average(scores) > stat.Reach(scores, (units+len(scores)+1)/2, sureLevel) {
			return true
		}
	}
	return false
}

// contrary returns the scores of units that did not measure a level but one beyond
// it on a side, if their answers contradict that side.
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

// measured returns the number of units that have a score of any level.
func (l ladder) measured() (n int) {
	for _, unit := range l.units {
		if slices.ContainsFunc(unit, known) {
			n++
		}
	}
	return n
}

// holds and breaks report what is certain by now.
func (l ladder) holds(level int) bool  { return l.sure(level, -1, 0) }
func (l ladder) breaks(level int) bool { return l.sure(level, 1, 0) }

// pivot returns where scores change sign on balance: the highest measured level
// below, -1 if there is none, and the lowest above, len(levels) if there is none.
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

// interval returns the highest level that certainly holds and the lowest that
// certainly breaks, or -1 and len(levels) if there is none. If both claims are in
// the wrong order, neither counts. At a cliff both ends move one level outwards: a
// few consistent answers prove little more than that the limit is near.
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

// wideCliff is the ratio between two levels above which differences between trials
// and pods rarely bridge them.
const wideCliff = 1.25

// cliff reports whether the value grows tenfold or more between two levels, for
// example because the searched component dies: neither level then shows how near
// the limit is.
func (l ladder) cliff(low, high int) bool {
	below, above := l.scores(low, 0), l.scores(high, 0)
	return len(below) > 0 && len(above) > 0 && stat.Average(above)-stat.Average(below) >= mostBeyond
}

// again returns the level that a later block needs next, given the earlier blocks;
// now also contains this block's own trials, and done reports their answers.
//
// The block measures both sides of the limit as known so far, unless their answers
// are certain. If an answer is so near the bound that all the study's blocks would
// not make it certain, it moves outwards by one step, two, four.
func (l ladder) again(now ladder, done func(level int) Answer) (level int, ok bool) {
	low, high := l.pivot()
	if low >= 0 && high < len(l.levels) && l.levels[high] > l.levels[low]*(1+l.tolerance) && l.tolerance > 0 {
		if i := l.middle(low, high, func(int) bool { return true }); i >= 0 && done(i) == Untried {
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

// middle returns the level between two others that is nearest to their geometric mean, of those that
// are open; -1 if there is none.
func (l ladder) middle(low, high int, open func(level int) bool) int {
	best, distance := -1, math.Inf(1)
	middle := (math.Log(l.levels[low]) + math.Log(l.levels[high])) / 2
	for i := low + 1; i < high; i++ {
		if d := math.Abs(math.Log(l.levels[i]) - middle); open(i) && !(d >= distance) {
			best, distance = i, d
		}
	}
	return best
}

// climb returns the level that a first block tries next: up to the first that
// breaks the bound, down to one that holds, then bisecting between the two. given
// reports the levels that the study names.
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
	step, from := 1, 0
	switch {
	case low < 0 && high < len(all): // down to a level that may hold
		step, from = -1, high-1
	case low < 0 || high == len(all):
	case l.levels[high] <= l.levels[low]*(1+l.tolerance):
		return 0, false
	default:
		level = l.middle(low, high, open)
		return level, level >= 0
	}
	for i := from; i >= 0 && i < len(all); i += step {
		if given(i) && open(i) {
			return i, true
		}
	}
	return 0, false
}
