package analysis

import (
	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// searches finds, for every combination of the other factors, how far a searched
// factor can go within the study's bound. The estimate is the highest level that
// held on balance. The interval ranges from the highest level that certainly holds
// to the lowest that certainly breaks (see [ladder]; TestSimulationSearch simulates
// runs). An unknown end is 0 or, if it is the upper end, equal to the lower end,
// and the finding says that it is open. The cell of such a finding lacks the
// factor.
func (o *Observations) searches() []record.Finding {
	var out []record.Finding
	for _, c := range o.climbs() {
		if f, ok := o.search(c); ok {
			out = append(out, f)
		}
	}
	return out
}

// tally counts the blocks' answers about a level, with the reason of the first one of each, if any.
type tally struct {
	count [Unknown + 1]int
	why   [Unknown + 1][]note.Note
}

func (t tally) held() int  { return t.count[Held] }
func (t tally) broke() int { return t.count[Broke] }

// bracket is the combined result of blocks about a climb.
type bracket struct {
	levels []tally
	// high is the lowest level that broke, with none above it that held, or -1 if
	// there is none.
	high int
	// end is high, or the level below it from which the machine or the generator is
	// the limit, so that nothing is known beyond it.
	end int
}

// bracket combines the blocks' answers. Inferred answers count only if nothing was
// measured.
func (o *Observations) bracket(c study.Climb) bracket {
	out := bracket{levels: make([]tally, len(c.Cells)), high: -1, end: -1}
	inferred := make([][]note.Note, len(c.Cells))
	for _, block := range o.Blocks {
		for i, v := range o.verdicts(c, block) {
			t := &out.levels[i]
			if v.Inferred {
				inferred[i] = []note.Note{v.Why}
				continue
			}
			if t.count[v.Answer]++; t.count[v.Answer] == 1 {
				t.why[v.Answer] = []note.Note{v.Why}
			}
		}
	}
	for i, why := range inferred {
		if t := &out.levels[i]; why != nil && t.held()+t.broke() == 0 {
			t.count[Broke], t.why[Broke] = 1, why
		}
	}
	for i := len(out.levels) - 1; i >= 0 && out.levels[i].held() == 0; i-- {
		switch t := out.levels[i]; {
		case t.count[Crowded] > 0:
			out.high, out.end = -1, i
		case t.broke() > 0:
			out.high, out.end = i, i
		}
	}
	return out
}

// search returns the finding of one climb, or false if none of its levels was
// measured and there is no reason.
func (o *Observations) search(c study.Climb) (record.Finding, bool) {
	rest := o.Short(c.Cells[0])
	delete(rest, c.Search.Factor)
	f := o.Named(study.Highest+c.Search.Factor, rest)
	f.Unit, f.Verdict = c.Factor.Unit, record.VerdictMeasured
	b, l := o.bracket(c), o.ladder(c, func(int) bool { return true })
	f.Blocks, f.Warnings = l.measured(), o.disagreements(c, b)
	if f.Blocks == 0 && b.end < 0 {
		return f, false
	}
	warn := func(notes ...note.Note) { f.Warnings = append(f.Warnings, notes...) }
	middle, beyond := l.pivot()
	low, high := l.interval()
	if f.Blocks < MinBlocks {
		low, high = middle, beyond
	}
	if middle >= 0 {
		f.Estimate = l.levels[middle]
		warn(o.loose(c, middle)...)
	}
	if low >= 0 {
		f.Low = l.levels[low]
	}
	crowded := b.end >= 0 && b.high != b.end
	if crowded {
		high = len(l.levels)
	}
	bound := words.Quantity(c.Search.Bound.Value, c.Search.Bound.Unit)
	switch {
	case crowded:
		f.Verdict = record.VerdictInconclusive
		warn(b.levels[b.end].why[Crowded]...)
		warn(noteElsewhere.Of(o.Plan.Label(o.Plan.Cells[c.Cells[b.end]])))
	case high < len(l.levels):
		f.High = l.levels[high]
		warn(b.levels[min(high, max(beyond, middle+1))].why[Broke]...)
	case beyond < len(l.levels):
		f.Reason = record.ReasonNotSure
		warn(b.levels[beyond].why[Broke]...)
		warn(noteUnsure.Of(bound))
	default:
		warn(noteUnbroken.Of(bound))
	}
	switch {
	case low < 0 && middle >= 0:
		f.Reason = record.ReasonNotSure
		warn(noteUnmetUnsure.Of(bound))
	case low < 0:
		warn(noteUnmet.Of())
	}
	switch {
	case f.Low == 0 && f.High == 0:
		f.Open = record.OpenBoth
	case f.High == 0:
		f.Open = record.OpenHigh
	case f.Low == 0:
		f.Open = record.OpenLow
	}
	if f.High == 0 { // only one end is known
		f.Estimate, f.High = f.Low, f.Low
		if f.Low == 0 && f.Verdict == record.VerdictMeasured {
			f.Verdict = record.VerdictInconclusive
		}
	}
	f.Estimate = max(f.Low, min(f.Estimate, f.High))
	if f.Blocks < MinBlocks && f.Verdict == record.VerdictMeasured {
		f.Verdict = record.VerdictInconclusive
		f.Because(record.ReasonOneBlock, noteOneBlock.Of())
	}
	return f, true
}

// disagreements describes where blocks, or the evidence about them, contradict each
// other.
func (o *Observations) disagreements(c study.Climb, b bracket) (out []note.Note) {
	bound := words.Quantity(c.Search.Bound.Value, c.Search.Bound.Unit)
	for i, t := range b.levels {
		at := o.Plan.Label(o.Plan.Cells[c.Cells[i]])
		if t.held() > 0 && t.broke() > 0 {
			out = append(out, noteBlocksBreak.Of(at, bound, t.held(), t.held()+t.broke(), note.Words(t.why[Broke])))
		}
		if crowded := t.count[Crowded]; t.held() > 0 && crowded > 0 {
			out = append(out, noteBlocksCrowd.Of(at, bound, t.held(), t.held()+crowded, note.Words(t.why[Crowded])))
		}
		if t.held()+t.broke()+t.count[Crowded] == 0 {
			out = append(out, t.why[Unknown]...)
		}
	}
	return out
}

// loose warns of a bound on a measure that is less exact than it looks.
func (o *Observations) loose(c study.Climb, level int) []note.Note {
	m, _, ok := o.MeasureNamed(c.Search.Finding)
	if !ok || o.kind.Search.Loose == nil {
		return nil
	}
	cell := c.Cells[level]
	var out []note.Note
	for _, why := range o.kind.Search.Loose(o, o.Valid(cell), m) {
		out = append(out, noteLoose.Of(o.Plan.Label(o.Plan.Cells[cell]), c.Search.Finding, why))
	}
	return out
}
