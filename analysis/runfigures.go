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
// blocks, without the underlying observations, so that many runs fit in memory.
type RunFigures struct {
	Header record.Header
	// Valid counts the trials that are.
	Valid int

	Plan *study.Plan
	// installed is what its trials found of levers left as installed.
	installed record.Cell
	// Rules says how the rules that judged it differ from today's.
	Rules   []note.Note
	Figures []RunFigure
	at      map[figureAt]int // index of each
	lost    map[int]bool     // cells without a valid trial, though they were tried
	untried map[int]bool     // cells that a search or a tuning left out, which says nothing
}

type figureAt struct {
	name string
	cell int // of the plan
}

// A RunFigure is one finding of a run.
type RunFigure struct {
	Finding record.Finding
	Blocks  []float64 // the numbers of each block that it comes from
	// Step is the step in which they are read, in the finding's unit; 0 for exact values. See
	// [Observations.Resolution].
	Step float64
	// Unreached says that the percentile lies among failed requests, over all requests of the
	// cell: it is above any value. The baseline's percentile lies among others.
	Unreached bool
	// Typical says that the value is the median of its blocks, not their mean.
	Typical bool
	// Compared says that runs are compared by it: by overheads if there are any, each against
	// its own run's baseline; never by context.
	Compared bool
	// Decides says that a comparison waits for it: the finding is the one the
	// study's stop rule names, or what its kind says if it names none.
	Decides      bool
	MoreIsBetter bool
	// Growth estimates the relative growth per hour, if the finding is one: it rests on all
	// windows of a run, has no values of blocks, and is compared by its difference, since no
	// share of zero is a margin. nil for all others.
	Growth func(o stat.Options) stat.Estimate
}

// Figures reduces a run to what it can be compared by. It fails like [Kinds.Analyze].
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

// add adds a cell's figures of a measure: its overhead, if it has one, and its own value.
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
		f := keep(o.overhead(cell, base, m), blocks, math.Sqrt2*o.Resolution(m, cell, base), !o.lacks(cell, m) && !o.lacks(base, m)) // else too few requests tell of it
		f.Unreached = f.Unreached && !o.unreached(base, m)
	}
	if f, ok := o.Plain(cell, m); ok {
		machines := m.Quantile > 0 && len(o.Plan.Study.Baseline) > 0 // a baseline's own latency is the machine's
		keep(f, o.Values(cell, m), o.Resolution(m, cell), !overhead && !machines && !o.lacks(cell, m)).Typical = m.Typical
	}
}

// WithoutSurvivors is a finding whose figure alone counts, as in comparisons: a percentile
// that was not reached in some trial, because more is lacking there than it leaves beyond it,
// compares with nothing. For an overhead this includes the baseline.
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

// UnreachedIn counts the valid trials of a cell, and those in which a measure was not reached:
// what it times never came, or more is lacking than the percentile leaves beyond it.
func (o *Observations) UnreachedIn(cell int, m Measure) (lost, all int) {
	valid := o.Valid(cell)
	for _, t := range valid {
		if m.Quantile == 0 && math.IsInf(m.Of(o, t), 1) || m.Beyond > 0 && o.lost([]*record.Trial{t}, m) > m.Beyond {
			lost++
		}
	}
	return lost, len(valid)
}

// unreached reports that a percentile of all requests of a cell lies among failed ones, or
// that a measure was reached in no trial.
func (o *Observations) unreached(cell int, m Measure) bool {
	if m.Quantile > 0 {
		return math.IsInf(stat.PooledQuantile(o.latencies(cell, bothTurns), m.Quantile, stat.Options{}).Value, 1)
	}
	lost, all := o.UnreachedIn(cell, m)
	return lost > 0 && lost == all
}

// AsFound is a factor's level or, for a lever that the run left as installed, the level found.
// Levers without a usual level of istiod's, above all its image, stay as installed: the
// versions of a run's components tell them apart.
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

// StudyAsFound is the run's study with the found levels of levers that its cells name as
// installed.
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

// Counterpart finds the figure of a name in the one cell that has the levels of
// a cell of another run; nil if there is none.
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

// Has reports whether the run's study has the one cell that has the levels of a
// cell of another run, and did not leave it out.
func (r *RunFigures) Has(of *RunFigures, short record.Cell) bool {
	cell, ok := r.place(of, short)
	return ok && !r.untried[cell]
}

// Lost reports whether the run has no valid trial of the one cell that has the levels
// of a cell of another run, though its study has it.
func (r *RunFigures) Lost(of *RunFigures, short record.Cell) bool {
	cell, ok := r.place(of, short)
	return ok && r.lost[cell]
}

// place finds the cell by the levels as both studies spell them, or else by what
// those that are as installed were found to be.
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

// decides reports whether the comparison as a whole waits for a finding of a
// measure.
func decides(s *study.Study, f record.Finding, m Measure) bool {
	if s.Stop != nil {
		return f.Name == s.Stop.Finding && f.Cell.Has(shared(s.Stop.Of, f.Cell))
	}
	return m.Decides
}

// shared is the part of partial whose factors the cell names.
func shared(partial, cell record.Cell) record.Cell {
	out := record.Cell{}
	for factor, level := range partial {
		if _, ok := cell[factor]; ok {
			out[factor] = level
		}
	}
	return out
}
