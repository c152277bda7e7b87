package analysis

import (
	"maps"
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
	"github.com/meshtrial/meshtrial/study"
)

// RunFigures is what a run provides for comparisons: each finding with the values of its
// blocks, but without the underlying observations, so that many runs fit in memory.
type RunFigures struct {
	Header record.Header
	// Valid counts the valid trials.
	Valid int

	Plan *study.Plan
	// installed holds the levels that its trials found for levers left as installed.
	installed record.Cell
	// Rules describes how the rules that judged the run differ from today's.
	Rules   []note.Note
	Figures []RunFigure
	at      map[figureAt]int // index of each figure
	lost    map[int]bool     // cells that were tried without a valid trial
	untried map[int]bool     // cells that a search or a tuning left out, which means nothing
}

type figureAt struct {
	name string
	cell int // index in the plan
}

// A RunFigure is one finding of a run.
type RunFigure struct {
	Finding record.Finding
	Blocks  []float64 // values of the blocks that it comes from
	// Step is the step in which they are read, in the finding's unit; 0 for exact values. See
	// [Observations.Resolution].
	Step float64
	// Unreached means that the percentile over all requests of the cell lies among failed
	// requests and is above any value. The baseline's percentile lies among successful ones.
	Unreached bool
	// Typical means that the value is the median of its blocks instead of their mean.
	Typical bool
	// Compared means that runs are compared by it: by overheads if there are any, each
	// relative to its own run's baseline; never by context.
	Compared bool
	// Decides means that a comparison waits for it: the study's stop rule names the finding,
	// or the kind selects it if the rule names none.
	Decides      bool
	MoreIsBetter bool
	// Growth estimates the relative growth per hour, if the finding is a growth. It rests on
	// all windows of a run, has no values of blocks, and is compared by its difference, since
	// a share of zero cannot be a margin. It is nil for all other findings.
	Growth func(o stat.Options) stat.Estimate
}

// Figures reduces a run to the figures for comparisons. It fails under the same conditions as
// [Kinds.Analyze].
func (kinds Kinds) Figures(run record.Run) (*RunFigures, error) {
	o, err := kinds.Observe(run)
	if err != nil {
		return nil, err
	}
	r := &RunFigures{Header: run.Header, Valid: o.validity().Valid, Plan: o.Plan, Rules: o.otherRules(), at: map[figureAt]int{}, lost: map[int]bool{}, untried: map[int]bool{}, installed: record.Cell{}}
	for cell := range o.Plan.Cells {
		r.untried[cell] = len(o.Tried[cell]) == 0 && o.Plan.Study.Chooses()
		r.lost[cell] = len(o.Valid(cell)) == 0 && !r.untried[cell]
	}
	for _, t := range run.Trials {
		if t.Control != nil {
			maps.Copy(r.installed, t.Control.Installed)
		}
	}
	for _, m := range o.Measures() {
		for cell := range o.Plan.Cells {
			if !r.untried[cell] {
				r.add(o, m, cell)
			}
		}
	}
	if o.kind.Figures != nil {
		for _, f := range o.kind.Figures(o) {
			r.at[figureAt{f.Finding.Name, 0}] = len(r.Figures)
			r.Figures = append(r.Figures, f)
		}
	}
	return r, nil
}

// add adds a cell's figures for a measure: its overhead, if any, and its own value.
func (r *RunFigures) add(o *Observations, m Measure, cell int) {
	base, overhead := o.Baseline(cell)
	overhead = overhead && m.Compared
	keep := func(f record.Finding, blocks []float64, step float64, compared bool) *RunFigure {
		f = o.WithoutSurvivors(f, m, cell, base)
		r.at[figureAt{f.Name, cell}] = len(r.Figures)
		r.Figures = append(r.Figures, RunFigure{Finding: f, Blocks: blocks, Step: step, Compared: compared && !m.Context,
			Decides: decides(o.Plan.Study, f, m), MoreIsBetter: m.MoreIsBetter, Unreached: f.Reason == record.ReasonNotReached && o.unreached(cell, m)})
		return &r.Figures[len(r.Figures)-1]
	}
	if overhead {
		var blocks []float64
		for _, p := range o.Pairs(cell, base, m) {
			blocks = append(blocks, p.Test-p.Base)
		}
		f := keep(o.overhead(cell, base, m), blocks, math.Sqrt2*o.Resolution(m, cell, base), !o.lacks(cell, m) && !o.lacks(base, m)) // otherwise too few requests support it
		f.Unreached = f.Unreached && !o.unreached(base, m)
	}
	if f, ok := o.Plain(cell, m); ok {
		machines := m.Quantile > 0 && len(o.Plan.Study.Baseline) > 0 // a baseline's own latency is the machine's
		keep(f, o.Values(cell, m), o.Resolution(m, cell), !overhead && !machines && !o.lacks(cell, m)).Typical = m.Typical
	}
}

// WithoutSurvivors returns a finding for uses where only its figure counts, as in comparisons:
// a percentile that was not reached in some trial, because more is missing than lies beyond
// it, cannot be compared with anything. For an overhead this includes the baseline.
func (o *Observations) WithoutSurvivors(f record.Finding, m Measure, cell, base int) record.Finding {
	cells := []int{cell}
	if f.Against != nil {
		cells = append(cells, base)
	}
	for _, c := range cells {
		if lost, all := o.UnreachedIn(c, m); lost > 0 && f.Verdict != record.VerdictInvalid {
			f = record.Finding{Name: f.Name, Probe: f.Probe, Unit: f.Unit, Cell: f.Cell, Against: f.Against, Blocks: f.Blocks, Verdict: record.VerdictInvalid}
			f.Because(record.ReasonNotReached, noteNeverBeyond.Of(lost, all).At(o.Plan.Label(o.Plan.Cells[c])))
		}
	}
	return f
}

// UnreachedIn returns the number of valid trials of a cell, and of those in which a measure
// was not reached: the timed event never came, or more is missing than lies beyond the
// percentile.
func (o *Observations) UnreachedIn(cell int, m Measure) (lost, all int) {
	valid := o.Valid(cell)
	for _, t := range valid {
		if m.Quantile == 0 && math.IsInf(m.Of(o, t), 1) || m.Beyond > 0 && o.lost([]*record.Trial{t}, m) > m.Beyond {
			lost++
		}
	}
	return lost, len(valid)
}

// unreached reports whether a percentile of all requests of a cell lies among failed ones, or
// a measure was reached in no trial.
func (o *Observations) unreached(cell int, m Measure) bool {
	if m.Quantile > 0 {
		return math.IsInf(stat.PooledQuantile(o.latencies(cell, bothTurns), m.Quantile, stat.Options{}).Value, 1)
	}
	lost, all := o.UnreachedIn(cell, m)
	return lost > 0 && lost == all
}

// AsFound returns a factor's level or, for a lever that the run left as installed, the level
// found. Levers for which istiod has no usual level, above all its image, stay as installed:
// the versions of a run's components distinguish them.
func (r *RunFigures) AsFound(factor, level string) string {
	if level != study.LevelInstalled {
		return level
	}
	f, _ := study.FactorByName(factor)
	if found, ok := r.installed[factor]; ok && f.Usual != "" {
		return found
	}
	return level
}

// StudyAsFound returns the run's study with found levels in place of "installed" in its cells.
func (r *RunFigures) StudyAsFound() *study.Study {
	s := *r.Plan.Study
	if s.Baseline != nil {
		s.Baseline = r.allAsFound(s.Baseline)
	}
	s.Exclude = slices.Clone(s.Exclude)
	for i, cell := range s.Exclude {
		s.Exclude[i] = r.allAsFound(cell)
	}
	s.Variants = slices.Clone(s.Variants)
	for i, v := range s.Variants {
		s.Variants[i].Levels = r.allAsFound(v.Levels)
	}
	return &s
}

func (r *RunFigures) allAsFound(cell record.Cell) record.Cell {
	out := record.Cell{}
	for factor, level := range cell {
		out[factor] = r.AsFound(factor, level)
	}
	return out
}

// Counterpart finds the figure of a name in the only cell that has the levels of a cell of
// another run, or returns nil.
func (r *RunFigures) Counterpart(of *RunFigures, name string, short record.Cell) *RunFigure {
	cell, ok := r.place(of, short)
	if !ok {
		return nil
	}
	i, ok := r.at[figureAt{name, cell}]
	if !ok {
		return nil
	}
	return &r.Figures[i]
}

// Has reports whether the run's study has exactly one cell with the levels of a cell of
// another run, and did not leave it out.
func (r *RunFigures) Has(of *RunFigures, short record.Cell) bool {
	cell, ok := r.place(of, short)
	return ok && !r.untried[cell]
}

// Lost reports whether the run has no valid trial of the only cell that has the levels of a
// cell of another run, though its study has that cell.
func (r *RunFigures) Lost(of *RunFigures, short record.Cell) bool {
	cell, ok := r.place(of, short)
	return ok && r.lost[cell]
}

// place finds the cell by the levels as both studies spell them, or else by the levels found
// for those left as installed.
func (r *RunFigures) place(of *RunFigures, short record.Cell) (cell int, ok bool) {
	if cell, ok := r.match(short, func(c record.Cell) record.Cell { return c }); ok {
		return cell, ok
	}
	return r.match(of.allAsFound(short), r.allAsFound)
}

func (r *RunFigures) match(short record.Cell, as func(record.Cell) record.Cell) (cell int, ok bool) {
	match, many := -1, false
	for i, cell := range r.Plan.Cells {
		if !as(cell).Has(short) {
			continue
		}
		if as(r.Plan.Short(cell)).Key() == short.Key() {
			match, many = i, false
			break
		}
		many = many || match >= 0
		match = i
	}
	return match, match >= 0 && !many
}

// decides reports whether a comparison's overall verdict waits for a finding of a measure.
func decides(s *study.Study, f record.Finding, m Measure) bool {
	if s.Stop != nil {
		return f.Name == s.Stop.Finding && f.Cell.Has(shared(s.Stop.Of, f.Cell))
	}
	return m.Decides
}

// shared returns the part of partial whose factors the cell has.
func shared(partial, cell record.Cell) record.Cell {
	out := record.Cell{}
	for factor, level := range partial {
		if _, ok := cell[factor]; ok {
			out[factor] = level
		}
	}
	return out
}
