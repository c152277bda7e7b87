package analysis

import (
	"fmt"
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// Answer is what a block says of one level of a search.
type Answer int

const (
	Untried Answer = iota
	Held           // within the bound
	Broke          // beyond it, by the doing of what is searched
	Crowded        // beyond it, by the doing of the machine or the generator
	Unknown        // tried, without a trial that may be believed
)

// Verdict is a block's answer about a level, with what to say of it.
type Verdict struct {
	Answer Answer
	Why    string // of all that did not hold
	// Inferred says that nothing was measured: a cell that asks for less
	// breaks a bound in this block already.
	Inferred bool
}

// failed names a check that made all of some trials invalid, with its detail,
// and says whether it is one of those that fail because of what is searched;
// one that is comes before others.
func failed(trials []*record.Trial, ownChecks map[string]bool) (why string, own bool) {
	for _, t := range trials {
		first, others := "", false
		for _, c := range t.Validity.Checks {
			if c.OK {
				continue
			}
			text := c.Name
			if c.Detail != "" {
				text += ": " + c.Detail
			}
			alone, its := ownChecks[c.Name]
			if alone {
				return text, true
			}
			others = others || !its
			// What is not its own tells more about why nothing is known.
			if first == "" || !its {
				first = text
			}
		}
		if first != "" && !others {
			return first, true
		}
		if why == "" {
			why = first
		}
	}
	return why, false
}

// verdict is what a block's own trials of a cell say of a search's bound.
func (o *Observations) verdict(s study.Search, cell, block int) Verdict {
	m, overhead, ok := o.MeasureNamed(s.Finding)
	if !ok || len(o.Tried[cell][block]) == 0 {
		return Verdict{}
	}
	label := o.Plan.Label(o.Plan.Cells[cell])
	valid := o.trials[cell][block]
	if len(valid) == 0 {
		who := o.kind.Search.Who
		why, its := failed(o.Tried[cell][block], o.kind.Search.OwnChecks)
		v := Verdict{Answer: Broke, Why: fmt.Sprintf("at %s no trial is valid (%s)", label, why)}
		if !its {
			v = Verdict{Answer: Unknown, Why: fmt.Sprintf("at %s no trial is valid (%s): what %s can do there is not known", label, why, who)}
		}
		return o.corrected(v, s, cell, block)
	}
	if share := o.lost(valid); m.Beyond > 0 && share > m.Beyond {
		return Verdict{Answer: Broke, Why: fmt.Sprintf("at %s, %s of what proxies needed never arrived or was never acknowledged: %s exceeds any bound", label, words.Percent(share), s.Finding)}
	}
	m = m.Searched()
	v := o.Block(cell, block, m)
	if base, ok := o.Baseline(cell); overhead && ok {
		if own := o.Block(base, block, m); math.IsInf(own, 1) {
			v = math.NaN()
		} else {
			v -= own
		}
	} else if overhead {
		v = math.NaN()
	}
	switch {
	case math.IsNaN(v):
		return Verdict{Answer: Unknown, Why: fmt.Sprintf("at %s there is no %s", label, s.Finding)}
	case math.IsInf(v, 1):
		return o.corrected(Verdict{Answer: Broke, Why: fmt.Sprintf("at %s, %s is not reached: it lies among requests that failed", label, s.Finding)}, s, cell, block)
	case v > s.Bound.Value:
		broken := Verdict{Answer: Broke, Why: fmt.Sprintf("at %s, %s is %s, beyond the bound of %s", label, s.Finding, words.Quantity(v, m.Unit), words.Quantity(s.Bound.Value, s.Bound.Unit))}
		return o.corrected(broken, s, cell, block)
	}
	return Verdict{Answer: Held}
}

// corrected is a verdict as the kind has it: where something else gave out than
// what is searched.
func (o *Observations) corrected(v Verdict, s study.Search, cell, block int) Verdict {
	if o.kind.Search.Whose == nil {
		return v
	}
	return o.kind.Search.Whose(o, v, s, cell, block)
}

// lost is the share of what trials never saw.
func (o *Observations) lost(trials []*record.Trial) float64 {
	if o.kind.Search.Lost == nil {
		return 0
	}
	return o.kind.Search.Lost(o, trials)
}

// verdicts are a block's answers about all levels of a climb.
func (o *Observations) verdicts(c study.Climb, block int) []Verdict {
	out := make([]Verdict, len(c.Cells))
	for i, cell := range c.Cells {
		out[i] = o.verdict(c.Search, cell, block)
		if out[i].Answer != Untried {
			continue
		}
		if below, ok := o.brokenBelow(cell, block); ok {
			out[i] = Verdict{Answer: Broke, Inferred: true,
				Why: fmt.Sprintf("%s was not measured: %s breaks a bound already", o.Plan.Label(o.Plan.Cells[cell]), o.Plan.Label(o.Plan.Cells[below]))}
		}
	}
	return out
}

// broken lists the cells that break a bound in a block.
func (o *Observations) broken(block int) []int {
	if out, ok := o.brokenIn[block]; ok {
		return out
	}
	out := []int{}
	for _, c := range o.Plan.Climbs() {
		for _, cell := range c.Cells {
			if o.verdict(c.Search, cell, block).Answer == Broke {
				out = append(out, cell)
			}
		}
	}
	o.brokenIn[block] = out
	return out
}

// brokenBelow names a cell that breaks a bound in a block and lies no higher
// than this one in all factors that are searched, so that this one need not be
// measured.
func (o *Observations) brokenBelow(cell, block int) (below int, ok bool) {
	for _, other := range o.broken(block) {
		if other == cell {
			continue
		}
		above, a, b := true, o.Plan.Cells[cell].With(nil), o.Plan.Cells[other].With(nil)
		for _, s := range o.Plan.Study.Search {
			factor, _ := study.FactorByName(s.Factor)
			x, okX := factor.Value(a[s.Factor])
			y, okY := factor.Value(b[s.Factor])
			above = above && (okX && okY && x >= y || a[s.Factor] == b[s.Factor])
		}
		for _, s := range o.Plan.Study.Search {
			delete(a, s.Factor)
			delete(b, s.Factor)
		}
		if above && a.Key() == b.Key() {
			return other, true
		}
	}
	return 0, false
}

// Next names the trial that a study which searches needs next in a block, by
// its place in the block's order; false when the block has all it needs.
//
// The first block climbs the given levels to the first that breaks the bound,
// and then halves the interval between it and the last that held, by its
// geometric mean, until the two are within the search's tolerance. Later
// blocks begin with the two ends that earlier ones found: where both answer
// as before that is all, else the block goes on from there, down or up, by
// its own answers.
func (kinds Kinds) Next(plan *study.Plan, run record.Run, block int) (order int, ok bool, err error) {
	o, err := kinds.Of(plan.Study).observe(plan, run)
	if err != nil {
		return 0, false, err
	}
	order, ok = o.next(block)
	return order, ok, nil
}

func (o *Observations) next(block int) (order int, ok bool) {
	climbs := o.Plan.Climbs()
	searched := map[int]bool{}
	for _, c := range climbs {
		for _, cell := range c.Cells {
			searched[cell] = true
		}
	}
	for cell := range o.Plan.Cells {
		if searched[cell] || o.Plan.Refined(o.Plan.Cells[cell]) {
			continue
		}
		if order, ok := o.turn(cell, block); ok {
			return order, true
		}
	}
	for _, c := range climbs {
		// A cell that was begun (a baseline has two turns) is ended first.
		for _, cell := range c.Cells {
			if len(o.Tried[cell][block]) > 0 {
				if order, ok := o.turn(cell, block); ok {
					return order, true
				}
			}
		}
		if k, ok := o.step(c, block); ok {
			return o.turn(c.Cells[k], block)
		}
	}
	return 0, false
}

// turn is the place in a block of the next trial of a cell, or of what it is
// compared with, that has not ended.
func (o *Observations) turn(cell, block int) (order int, ok bool) {
	cells := []int{cell}
	if base, ok := o.Baseline(cell); ok {
		cells = []int{base, cell}
	}
	slots := o.Plan.Block(block)
	for _, want := range cells {
		for order, slot := range slots {
			done := slices.ContainsFunc(o.Tried[want][block], func(t *record.Trial) bool { return t.Order == order })
			if slot.Cell == want && !done {
				return order, true
			}
		}
	}
	return 0, false
}

// step is the level of a climb to be tried next in a block.
func (o *Observations) step(c study.Climb, block int) (level int, ok bool) {
	all := o.verdicts(c, block)
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
	earlier := o.bracket(c, func(b int) bool { return b < block })
	open := func(i int) bool { return i > low && i < high && all[i].Answer == Untried }
	stands := func(i int) bool { return !o.Plan.Refined(o.Plan.Cells[c.Cells[i]]) }
	switch {
	case low < 0: // nothing holds yet
		for _, i := range []int{earlier.low, earlier.end} {
			if i >= 0 && open(i) {
				return i, true
			}
		}
		if high < len(all) { // down to what may hold
			for i := high - 1; i >= 0; i-- {
				if stands(i) && open(i) {
					return i, true
				}
			}
			return 0, false
		}
		return firstOf(all, func(i int) bool { return stands(i) && open(i) })
	case high == len(all): // nothing breaks yet
		if earlier.end >= 0 && open(earlier.end) {
			return earlier.end, true
		}
		return firstOf(all, func(i int) bool { return stands(i) && open(i) })
	}
	a, b := c.Level(o.Plan, c.Cells[low]), c.Level(o.Plan, c.Cells[high])
	if b <= a*(1+float64(c.Search.Tolerance)) {
		return 0, false
	}
	best, distance := 0, math.Inf(1)
	for i := low + 1; i < high; i++ {
		if !open(i) {
			continue
		}
		if d := math.Abs(math.Log(c.Level(o.Plan, c.Cells[i])) - (math.Log(a)+math.Log(b))/2); !(d >= distance) {
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
