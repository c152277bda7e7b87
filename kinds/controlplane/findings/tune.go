package findings

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/meshtrial/meshtrial/advise/capacity/push"
	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat/tuning"
	"github.com/meshtrial/meshtrial/study"
)

// nextTuned names the trial that a tuning needs next in a block, by its place in the
// block's order; false when the block has all it needs.
//
// What a block tries is decided once, by the trials of the blocks before it: the cells
// that package tuning chooses, each once, in the block's random order. When the search
// is over, blocks follow that try the recommended cell once and the one in use twice,
// which no block of a search does.
func nextTuned(o *analysis.Observations, block int) (order int, ok bool) {
	wanted := tunedSlots(o, block)
	for order, slot := range o.Plan.Block(block) {
		if slices.Contains(wanted, slot) && !slices.ContainsFunc(o.Tried[slot.Cell][block], func(t *record.Trial) bool { return t.Order == order }) {
			return order, true
		}
	}
	return 0, false
}

// tunedSlots are the trials that a block of a tuning has; none: it is not needed.
func tunedSlots(o *analysis.Observations, block int) []study.Slot {
	base := tunedBase(o)
	recommended, blocks := comparing(o, block)
	if blocks == 0 {
		d := decide(o, block)
		if d.Stop == "" {
			out := make([]study.Slot, len(d.Cells))
			for i, c := range d.Cells {
				out[i] = study.Slot{Cell: c.Cell}
			}
			return out
		}
		recommended = chosen(o, d)
	}
	if recommended == base || blocks >= o.Plan.Study.Tune.Confirm {
		return nil
	}
	return []study.Slot{{Cell: base}, {Cell: base, Repeat: 1}, {Cell: recommended}}
}

// chosen is what a search that has ended recommends: of the cells as good as its best the
// one that moves the fewest levers, or the one in use where none that was tried is likely
// to meet the constraints.
func chosen(o *analysis.Observations, d tuning.Decision) int {
	if !d.Met {
		return tunedBase(o)
	}
	return d.Spare
}

// tunedBase is the cell in use: the study's only baseline.
func tunedBase(o *analysis.Observations) int {
	return slices.IndexFunc(o.Plan.Cells, o.Plan.IsBaseline)
}

// compares says that a block compares the recommended cell with the one in use: the
// latter had its second turn there.
func compares(o *analysis.Observations, block int) bool {
	return slices.ContainsFunc(o.Tried[tunedBase(o)][block], func(t *record.Trial) bool { return t.Repeat == 1 })
}

// comparing is what the blocks before one compare with the cell in use, and how many do.
func comparing(o *analysis.Observations, before int) (recommended, blocks int) {
	recommended = tunedBase(o)
	for _, block := range o.Blocks {
		if block >= before || !compares(o, block) {
			continue
		}
		blocks++
		for cell := range o.Plan.Cells {
			if cell != tunedBase(o) && len(o.Tried[cell][block]) > 0 {
				recommended = cell
			}
		}
	}
	return recommended, blocks
}

// decide is what the search says before a block, by the trials of the blocks before.
func decide(o *analysis.Observations, block int) tuning.Decision {
	if d, ok := o.Decided[block].(tuning.Decision); ok {
		return d
	}
	p := tuningProblem(o, block)
	trials := tuningTrials(o, p, block)
	d := p.Next(trials)
	if why := noTime(o, p.Rules, block); d.Stop == "" && why != "" {
		d.Cells, d.Stop = nil, why
	}
	o.Decided[block] = d
	return d
}

// comparedTrials is how many trials a block has that compares two cells.
const comparedTrials = 3

// noTime says that another block of the search would leave no time for the comparison,
// by what trials have taken so far; "" if there is time. Before the first block nobody
// knows.
func noTime(o *analysis.Observations, r tuning.Rules, before int) string {
	limit := o.Plan.Study.Blocks.Limit
	var spent time.Duration
	n := 0
	for i := range o.Run.Trials {
		if t := &o.Run.Trials[i]; t.Block < before {
			spent, n = spent+t.Ended.Sub(t.Started), n+1
		}
	}
	if limit <= 0 || n == 0 {
		return ""
	}
	each := spent / time.Duration(n)
	if needed := each * time.Duration(r.PerBlock()+comparedTrials*o.Plan.Study.Tune.Confirm); spent+needed <= limit {
		return ""
	}
	return fmt.Sprintf("the time limit of %v leaves time only for the comparison", limit)
}

// searchedBlock says that a block belongs to the search of a tuning. The last one may
// have begun to compare, and not yet made the trial that shows it.
func searchedBlock(o *analysis.Observations, block int) bool {
	if compares(o, block) {
		return false
	}
	_, earlier := comparing(o, block)
	return earlier == 0 && (block < o.Blocks[len(o.Blocks)-1] || decide(o, block).Stop == "")
}

// tunedMeasures are the measures that a search knows of cells: objectives first, then
// what is bounded, then what is told besides.
func tunedMeasures(o *analysis.Observations) []string {
	var out []string
	add := func(name string) {
		d := o.Plan.Study.Kind.Findings().Must(name)
		if !slices.Contains(out, name) && o.Plan.Study.Measured(d.Probe) {
			out = append(out, name)
		}
	}
	for _, g := range o.Plan.Study.Tune.Objectives {
		add(g.Finding)
	}
	for _, b := range o.Plan.Study.Tune.Constraints {
		add(b.Finding)
	}
	for _, name := range controlplane.TuneFront {
		add(name)
	}
	return out
}

// tuningProblem is the study as package tuning has it, from what is known before a
// block.
func tuningProblem(o *analysis.Observations, before int) *tuning.Problem {
	t := o.Plan.Study.Tune
	p := &tuning.Problem{Space: tuningSpace(o, before), Rules: tuning.Rules{
		Trials: o.Plan.TuneTrials(), Better: float64(t.Better), Doubt: float64(t.Doubt), Gain: float64(t.Gain), Seed: o.Plan.Seed}}
	names := tunedMeasures(o)
	for _, name := range names {
		def := o.Plan.Study.Kind.Findings().Must(name)
		m := tuning.Measure{Name: name, Signed: def.Signed || def.Net}
		for _, g := range t.Objectives {
			if g.Finding == name {
				m.Weight = g.Weight
			}
		}
		for _, e := range t.Expected {
			if e.Finding == name {
				m.Expected = e.Values
			}
		}
		p.Measures = append(p.Measures, m)
	}
	for _, b := range t.Constraints {
		p.Bounds = append(p.Bounds, tuning.Bound{Measure: slices.Index(names, b.Finding), Limit: b.Limit, Relative: b.Relative})
	}
	return p
}

// tuningSpace is the grid of the plan's cells.
func tuningSpace(o *analysis.Observations, before int) tuning.Space {
	found := foundLevers(o, before)
	s := tuning.Space{Base: tunedBase(o), Cells: make([]tuning.Point, len(o.Plan.Cells))}
	for _, f := range o.Plan.Varying {
		levels := f.Levels
		values := make([]float64, len(levels))
		for i, level := range levels {
			values[i] = leverValue(o, f.Factor, level, found)
		}
		s.Levers = append(s.Levers, tuning.Lever{Name: f.Factor, Places: tuning.Places(values)})
		for c, cell := range o.Plan.Cells {
			at := slices.Index(levels, cell[f.Factor])
			if at < 0 {
				at = tuning.Absent
			}
			s.Cells[c] = append(s.Cells[c], at)
		}
	}
	return s
}

// foundLevers are the levers as installed, as the first trial before a block found
// them; nil where none did.
func foundLevers(o *analysis.Observations, before int) record.Cell {
	for i := range o.Run.Trials {
		if t := &o.Run.Trials[i]; t.Block < before && t.Control != nil && len(t.Control.Installed) > 0 {
			return t.Control.Installed
		}
	}
	return nil
}

// leverValue is a level as a number, by what was found where it is as installed, or
// what is usual; not a number for words.
func leverValue(o *analysis.Observations, factor, level string, found record.Cell) float64 {
	f, ok := controlplane.LeverByName(factor)
	if !ok {
		return math.NaN()
	}
	if level == study.LevelInstalled {
		if level = found[factor]; level == "" {
			level = f.Usual
		}
	}
	cpus := o.Run.Header.Machine.CPUs
	switch {
	case factor == controlplane.FactorPushThrottle && level == study.LevelDefault:
		return float64(push.DefaultThrottle(float64(max(cpus, 1))))
	case factor == controlplane.FactorIstiodCPU && level == study.LevelNone && cpus > 0:
		return float64(cpus)
	}
	if v, ok := f.Value(level); ok {
		return v
	}
	return math.NaN()
}

// lateBeyond stands for a percentile that lies among changes that never arrived: ten
// times what was seen of those that did, or where none did, of the trial's window.
const lateBeyond = 10

// tuningTrials are the search's trials before a block, in the order in which they were
// made.
func tuningTrials(o *analysis.Observations, p *tuning.Problem, before int) []tuning.Trial {
	var out []tuning.Trial
	for i := range o.Run.Trials {
		t := &o.Run.Trials[i]
		cell, ok := o.Plan.Index(t.Cell)
		if !ok || t.Block >= before || compares(o, t.Block) {
			continue
		}
		one := tuning.Trial{Cell: cell, Block: t.Block, Values: make([]float64, len(p.Measures))}
		for k, m := range p.Measures {
			one.Values[k] = tuningValue(o, m.Name, t)
		}
		out = append(out, one)
	}
	return out
}

// tuningValue is what a trial says of a measure; not a number where it says nothing.
func tuningValue(o *analysis.Observations, name string, t *record.Trial) float64 {
	m, _, ok := o.MeasureNamed(name)
	if !ok || !t.Validity.Valid {
		return math.NaN()
	}
	v := m.Searched().Of(o, t)
	if m.Beyond > 0 && missedShare(o, []*record.Trial{t}, groupOf(m)) > m.Beyond || math.IsInf(v, 1) { // infinite of single changes: see overChanges
		acked := groupOf(m).of(converged(o, t)).acked
		switch {
		case acked.Total() == 0:
			v = 1e6 * t.Window.Seconds
		case math.IsInf(v, 1):
			v = acked.Quantile(1)
		}
		v *= lateBeyond
	}
	if math.IsInf(v, 0) {
		return math.NaN()
	}
	return v
}
