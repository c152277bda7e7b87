package analysis

import (
	"cmp"
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
	"github.com/meshtrial/meshtrial/study"
)

// Answer is the result of a block about one level of a search.
type Answer int

const (
	Untried Answer = iota
	Held           // within the bound
	Broke          // beyond it, because of the searched factor
	Crowded        // beyond it, because of the machine or the generator
	Unknown        // tried, without a valid trial
)

// Verdict is a block's answer about a level, with the reasons.
type Verdict struct {
	Answer Answer
	Why    note.Note // everything that failed
	// Inferred means that nothing was measured: a less demanding cell of another climb already
	// breaks a bound in this block.
	Inferred bool
	// Score is the distance of the value from the bound, see [ladder]; NaN if it is unknown.
	Score float64
}

// searched caches repeated queries about a run's searches.
type searched struct {
	verdicts map[searchedCell]Verdict
	broken   map[int][]brokenCell // by block
	climbs   []study.Climb
	measures map[string]searchedMeasure // by name of the finding
}

type searchedMeasure struct {
	Measure
	overhead, ok bool
}

type searchedCell struct {
	finding     string
	bound       float64
	cell, block int
}

func (o *Observations) measure(s study.Search) (m Measure, overhead, ok bool) {
	found, known := o.searched.measures[s.Finding]
	if !known {
		found.Measure, found.overhead, found.ok = o.MeasureNamed(s.Finding)
		o.searched.measures[s.Finding] = found
	}
	return found.Measure, found.overhead, found.ok
}

func (o *Observations) climbs() []study.Climb {
	if o.searched.climbs == nil {
		o.searched.climbs = o.Plan.Climbs()
	}
	return o.searched.climbs
}

// brokenCell is a cell that breaks a bound in a block.
type brokenCell struct {
	cell  int
	score float64
}

// score returns how far a value is from a positive bound; for other bounds, only on which
// side.
func score(v, bound float64) float64 {
	switch {
	case bound > 0 && v > 0:
		return max(-mostBeyond, min(mostBeyond, math.Log(v/bound)))
	case v > bound:
		return mostBeyond
	}
	return -mostBeyond
}

// failed names a check that failed in all of the trials, with its detail, and reports whether
// it fails because of the searched factor; such checks take precedence.
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
			// Another check explains better why the answer is unknown.
			if first == "" || !its {
				first = text
			}
		}
		if first != "" && !others {
			return first, true
		}
		why = cmp.Or(why, first)
	}
	return why, false
}

// Answer returns the answer of a block's trials of a cell about a search's bound, and the
// cause if they exceed it.
func (o *Observations) Answer(s study.Search, cell, block int) Verdict {
	if len(o.Tried[cell][block]) == 0 {
		return Verdict{Score: math.NaN()}
	}
	key := searchedCell{s.Finding, s.Bound.Value, cell, block}
	v, ok := o.searched.verdicts[key]
	if !ok {
		v = o.judge(s, cell, block)
		if v.Answer != Held && v.Answer != Broke {
			v.Score = math.NaN()
		}
		o.searched.verdicts[key] = v
	}
	return v
}

func (o *Observations) judge(s study.Search, cell, block int) Verdict {
	m, overhead, ok := o.measure(s)
	if !ok {
		return Verdict{}
	}
	label := o.Plan.Label(o.Plan.Cells[cell])
	valid := o.trials[cell][block]
	if len(valid) == 0 {
		why, its := failed(o.Tried[cell][block], o.kind.Search.OwnChecks)
		v := Verdict{Answer: Broke, Score: mostBeyond, Why: noteNoTrial.Of(label, why, nil)}
		if !its {
			v = Verdict{Answer: Unknown, Why: noteNoTrial.Of(label, why, o.kind.Search.Who)}
		}
		return o.corrected(v, s, cell, block)
	}
	if share := o.lost(valid, m); m.Beyond > 0 && share > m.Beyond {
		return Verdict{Answer: Broke, Score: mostBeyond, Why: noteNeverSeen.Of(label, words.Percent(share), s.Finding)}
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
		return Verdict{Answer: Unknown, Why: noteNoFigure.Of(label, s.Finding)}
	case math.IsInf(v, 1):
		why := noteAmongFailed
		if m.Never != nil {
			why = noteUntimed
		}
		return o.corrected(Verdict{Answer: Broke, Score: mostBeyond, Why: why.Of(label, s.Finding)}, s, cell, block)
	case v > s.Bound.Value:
		broken := Verdict{Answer: Broke, Score: score(v, s.Bound.Value), Why: noteBeyond.Of(label, s.Finding, words.Quantity(v, m.Unit), words.Quantity(s.Bound.Value, s.Bound.Unit))}
		return o.corrected(broken, s, cell, block)
	}
	return Verdict{Answer: Held, Score: score(v, s.Bound.Value)}
}

// corrected returns a verdict as corrected by the kind in case something other than the
// searched factor was the limit.
func (o *Observations) corrected(v Verdict, s study.Search, cell, block int) Verdict {
	if o.kind.Search.Whose == nil {
		return v
	}
	return o.kind.Search.Whose(o, v, s, cell, block)
}

// lost returns the share of the measured quantity that trials never saw.
func (o *Observations) lost(trials []*record.Trial, m Measure) float64 {
	if o.kind.Search.Lost == nil {
		return 0
	}
	return o.kind.Search.Lost(o, trials, m)
}

// verdicts returns a block's answers about all levels of a climb.
func (o *Observations) verdicts(c study.Climb, block int) []Verdict {
	out := make([]Verdict, len(c.Cells))
	for i, cell := range c.Cells {
		out[i] = o.Answer(c.Search, cell, block)
		if out[i].Answer != Untried {
			continue
		}
		if below, ok := o.brokenBelow(c, cell, block); ok {
			out[i] = Verdict{Answer: Broke, Inferred: true, Score: below.score,
				Why: noteInferred.Of(o.Plan.Label(o.Plan.Cells[cell]), o.Plan.Label(o.Plan.Cells[below.cell]))}
		}
	}
	return out
}

func (o *Observations) broken(block int) []brokenCell {
	if out, ok := o.searched.broken[block]; ok {
		return out
	}
	out := []brokenCell{}
	for _, c := range o.climbs() {
		for _, cell := range c.Cells {
			if v := o.Answer(c.Search, cell, block); v.Answer == Broke {
				out = append(out, brokenCell{cell, v.Score})
			}
		}
	}
	o.searched.broken[block] = out
	return out
}

// brokenBelow names a cell of another climb that breaks a bound in a block and is no higher
// than this one in all searched factors, so this one need not be measured.
func (o *Observations) brokenBelow(c study.Climb, cell, block int) (below brokenCell, ok bool) {
	for _, other := range o.broken(block) {
		if slices.Contains(c.Cells, other.cell) {
			continue
		}
		above, a, b := true, o.Plan.Cells[cell].With(nil), o.Plan.Cells[other.cell].With(nil)
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
	return brokenCell{}, false
}

// Next returns the trial that a searching or tuning study needs next in a block, as its place
// in the block's order, and false once the block has all it needs. For a tuning, the kind
// decides.
//
// The first block climbs the given levels to the first that breaks the bound. It then bisects
// the interval between that level and the last one that held, at the geometric mean, until the
// two are within the search's tolerance. Later blocks measure both sides of the limit again
// until the answers are certain: see [ladder].
func (kinds Kinds) Next(plan *study.Plan, run record.Run, block int) (order int, ok bool, err error) {
	o, err := kinds.Of(plan.Study).observe(plan, run)
	if err != nil {
		return 0, false, err
	}
	order, ok = o.next(block)
	return order, ok, nil
}

func (o *Observations) next(block int) (order int, ok bool) {
	if o.Plan.Study.Tune != nil {
		return o.kind.Next(o, block)
	}
	climbs := o.climbs()
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
		// Finish a started cell first (a baseline has two turns).
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

// sated reports whether the searches need no further trial of a block.
func (o *Observations) sated(block int) bool {
	if !o.Plan.Study.Chooses() {
		return false
	}
	_, more := o.next(block)
	return !more
}

// turn returns the place in a block of the next unfinished trial of a cell or of its baseline.
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

func (o *Observations) step(c study.Climb, block int) (level int, ok bool) {
	all := o.verdicts(c, block)
	earlier := o.ladder(c, func(b int) bool { return b < block })
	if earlier.measured() == 0 {
		return earlier.climb(all, func(i int) bool { return !o.Plan.Refined(o.Plan.Cells[c.Cells[i]]) })
	}
	return earlier.again(o.ladder(c, func(b int) bool { return b <= block }), func(i int) Answer { return all[i].Answer })
}

// ladder collects what some blocks say about a climb's levels.
func (o *Observations) ladder(c study.Climb, of func(block int) bool) ladder {
	blocks := o.Plan.Study.Blocks
	l := ladder{tolerance: float64(c.Search.Tolerance), least: blocks.Min, most: blocks.Max}
	if per := blocks.Redeploy; per > 1 {
		l.least, l.most = (l.least+per-1)/per, (l.most+per-1)/per
	}
	l.least = max(l.least, leastSure)
	for _, cell := range c.Cells {
		l.levels = append(l.levels, c.Level(o.Plan, cell))
	}
	for _, unit := range o.Units {
		scores := make([][]float64, len(c.Cells))
		for _, block := range unit {
			if !of(block) {
				continue
			}
			for i, v := range o.verdicts(c, block) {
				if v.Answer != Untried && known(v.Score) {
					scores[i] = append(scores[i], v.Score)
				}
			}
		}
		row := make([]float64, len(c.Cells))
		for i, some := range scores {
			row[i] = math.NaN()
			if len(some) > 0 {
				row[i] = stat.Average(some)
			}
		}
		l.units = append(l.units, row)
	}
	return l
}
