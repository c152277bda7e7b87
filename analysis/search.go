package analysis

import (
	"fmt"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// searches finds, for every combination of the other factors, the highest
// level of a searched factor at which the study's bound holds. Its interval
// goes from there to the first level at which it does not. The cell of such a
// finding lacks the factor.
func (o *Observations) searches() []record.Finding {
	var out []record.Finding
	for _, c := range o.Plan.Climbs() {
		if f, ok := o.search(c); ok {
			out = append(out, f)
		}
	}
	return out
}

// tally counts the blocks' answers about a level.
type tally struct {
	held, broke, crowded, unknown    int
	brokeWhy, crowdedWhy, unknownWhy string // of the first
}

// bracket is what blocks together say of a climb.
type bracket struct {
	levels []tally
	// low is the highest level that held in every block that tried it, with
	// none below it that broke; high the lowest that broke in every such
	// block, with none above it that held. -1: there is none. Levels between
	// them at which blocks disagree make the interval as wide as it is.
	low, high int
	// end is high, or the level below it from which on the machine or the
	// generator is what gives out, so that what lies there is not known.
	end int
}

// bracket gathers the answers of some blocks. What was only inferred counts
// where nothing was measured.
func (o *Observations) bracket(c study.Climb, of func(block int) bool) bracket {
	out := bracket{levels: make([]tally, len(c.Cells)), low: -1, high: -1, end: -1}
	inferred := make([]string, len(c.Cells))
	for _, block := range o.Blocks {
		if !of(block) {
			continue
		}
		for i, v := range o.verdicts(c, block) {
			t := &out.levels[i]
			switch {
			case v.Inferred:
				inferred[i] = v.Why
			case v.Answer == Held:
				t.held++
			case v.Answer == Broke:
				if t.broke++; t.brokeWhy == "" {
					t.brokeWhy = v.Why
				}
			case v.Answer == Crowded:
				if t.crowded++; t.crowdedWhy == "" {
					t.crowdedWhy = v.Why
				}
			case v.Answer == Unknown:
				if t.unknown++; t.unknownWhy == "" {
					t.unknownWhy = v.Why
				}
			}
		}
	}
	for i, why := range inferred {
		if t := &out.levels[i]; why != "" && t.held+t.broke == 0 {
			t.broke, t.brokeWhy = 1, why
		}
	}
	for i, t := range out.levels {
		if t.broke+t.crowded > 0 {
			break
		}
		if t.held > 0 {
			out.low = i
		}
	}
	for i := len(out.levels) - 1; i >= 0 && out.levels[i].held == 0; i-- {
		switch t := out.levels[i]; {
		case t.crowded > 0:
			out.high, out.end = -1, i
		case t.broke > 0:
			out.high, out.end = i, i
		}
	}
	return out
}

// search is the finding of one climb; false if none of its levels was
// measured and nothing says why.
func (o *Observations) search(c study.Climb) (record.Finding, bool) {
	rest := o.Short(c.Cells[0])
	delete(rest, c.Search.Factor)
	f := o.Named(study.Highest+c.Search.Factor, rest)
	f.Unit, f.Verdict = c.Factor.Unit, record.VerdictMeasured
	b := o.bracket(c, func(int) bool { return true })
	bound := words.Quantity(c.Search.Bound.Value, c.Search.Bound.Unit)
	disputed := -1
	for i, t := range b.levels {
		if t.held > 0 && t.broke > 0 {
			disputed = i
			f.Warnings = append(f.Warnings, fmt.Sprintf("at %s the bound of %s holds in %d of %d blocks (%s): the limit is no sharper than this", o.Plan.Label(o.Plan.Cells[c.Cells[i]]), bound, t.held, t.held+t.broke, t.brokeWhy))
		}
		if t.held > 0 && t.crowded > 0 {
			f.Warnings = append(f.Warnings, fmt.Sprintf("at %s the bound of %s holds in %d of %d blocks: %s", o.Plan.Label(o.Plan.Cells[c.Cells[i]]), bound, t.held, t.held+t.crowded, t.crowdedWhy))
			disputed = i
		}
		if t.unknown > 0 && t.held+t.broke+t.crowded == 0 {
			f.Warnings = append(f.Warnings, t.unknownWhy)
		}
	}
	if b.low < 0 && b.end < 0 && disputed < 0 {
		return f, false
	}
	if b.low >= 0 {
		f.Estimate, f.Blocks = c.Level(o.Plan, c.Cells[b.low]), b.levels[b.low].held
		f.Low, f.High = f.Estimate, f.Estimate
		f.Warnings = append(f.Warnings, o.close(c, b.low)...)
		f.Warnings = append(f.Warnings, o.loose(c, b.low)...)
	}
	switch {
	case b.end >= 0 && b.high != b.end:
		f.Verdict = record.VerdictInconclusive
		f.Warnings = append(f.Warnings, b.levels[b.end].crowdedWhy,
			fmt.Sprintf("at %s something else is the bottleneck: the limit lies at or above the highest level that holds", o.Plan.Label(o.Plan.Cells[c.Cells[b.end]])))
	case b.high >= 0:
		f.High = c.Level(o.Plan, c.Cells[b.high])
		f.Warnings = append(f.Warnings, b.levels[b.high].brokeWhy)
		if b.low < 0 {
			f.Blocks = b.levels[b.high].broke
		}
	case disputed >= 0:
		f.High = c.Level(o.Plan, c.Cells[disputed])
		f.Warnings = append(f.Warnings, "no level breaks the bound in every block: the limit may lie higher")
	default:
		f.Warnings = append(f.Warnings, fmt.Sprintf("no measured level breaks the bound of %s: the limit lies higher", bound))
	}
	if b.low < 0 {
		f.Warnings = append(f.Warnings, "no level meets the bound")
	}
	if (f.Blocks == 1 || endBlocks(b) == 1) && len(o.Blocks) > 1 {
		f.Warnings = append(f.Warnings, "one end of the interval was measured in only one block")
	}
	return f, true
}

// endBlocks is in how many blocks the end that breaks the bound did so; 0
// without such an end.
func endBlocks(b bracket) int {
	if b.high < 0 {
		return 0
	}
	return b.levels[b.high].broke
}

// close warns of a finding that keeps within the bound, but whose interval
// over blocks does not.
func (o *Observations) close(c study.Climb, level int) []string {
	m, overhead, ok := o.MeasureNamed(c.Search.Finding)
	cell := c.Cells[level]
	var f record.Finding
	if base, compared := o.Baseline(cell); overhead && compared {
		f = o.overhead(cell, base, m)
	} else if ok && !overhead {
		f, ok = o.Plain(cell, m)
	}
	if !ok || f.Verdict == record.VerdictInvalid || !(f.High > c.Search.Bound.Value) {
		return nil
	}
	return []string{fmt.Sprintf("at %s the interval of %s reaches %s, beyond the bound of %s", o.Plan.Label(o.Plan.Cells[cell]),
		c.Search.Finding, words.Quantity(f.High, f.Unit), words.Quantity(c.Search.Bound.Value, c.Search.Bound.Unit))}
}

// loose warns of a bound on a measure that is less exact than it looks.
func (o *Observations) loose(c study.Climb, level int) []string {
	m, _, ok := o.MeasureNamed(c.Search.Finding)
	if !ok || o.kind.Search.Loose == nil {
		return nil
	}
	cell := c.Cells[level]
	w := o.kind.Search.Loose(o, o.Valid(cell), m)
	if w == "" {
		return nil
	}
	return []string{fmt.Sprintf("at %s %s: %s", o.Plan.Label(o.Plan.Cells[cell]), c.Search.Finding, w)}
}
