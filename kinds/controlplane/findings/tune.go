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

// nextTuned returns the next trial that a tuning needs in a block, by its position in the block's
// order, or false if the block is complete.
//
// The trials of a block are decided once, from the trials of earlier blocks: the cells that package
// tuning chooses, each once, in the block's random order. After the search, blocks run the
// recommended cell once and the current one twice, which no block of a search does.
func nextTuned(o *analysis.Observations, block int) (order int, ok bool) {
	wanted := tunedSlots(o, block)
	for order, slot := range o.Plan.Block(block) {
		if slices.Contains(wanted, slot) && !slices.ContainsFunc(o.Tried[slot.Cell][block], func(t *record.Trial) bool { return t.Order == order }) {
			return order, true
		}
	}
	return 0, false
}

// tunedSlots returns the trials of a block in a tuning, none if the block is not needed.
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

// chosen returns the recommendation of a completed search: among the cells as good as its best, the
// one that moves the fewest levers, or the current cell if none that was tried is likely to meet
// the constraints.
func chosen(o *analysis.Observations, d tuning.Decision) int {
	if !d.Met {
		return tunedBase(o)
	}
	return d.Spare
}

// tunedBase returns the current cell: the study's only baseline.
func tunedBase(o *analysis.Observations) int {
	return slices.IndexFunc(o.Plan.Cells, o.Plan.IsBaseline)
}

// compares reports whether a block compares the recommended cell with the current one, which then
// has its second turn there.
func compares(o *analysis.Observations, block int) bool {
	return slices.ContainsFunc(o.Tried[tunedBase(o)][block], func(t *record.Trial) bool { return t.Repeat == 1 })
}

// comparing returns the cell that the blocks before one compare with the current cell, and the
// number of those blocks.
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

// decide returns the search's decision before a block, from the trials of earlier blocks.
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

// comparedTrials is the number of trials in a block that compares two cells.
const comparedTrials = 3

// noTime explains that another block of the search would leave no time for the comparison, judging
// by the duration of trials so far; "" if there is time. Before the first block it is unknown.
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

// searchedBlock reports whether a block belongs to the search of a tuning. The last block may have
// begun to compare without having run the trial that shows it.
func searchedBlock(o *analysis.Observations, block int) bool {
	if compares(o, block) {
		return false
	}
	_, earlier := comparing(o, block)
	return earlier == 0 && (block < o.Blocks[len(o.Blocks)-1] || decide(o, block).Stop == "")
}

// tunedMeasures returns the measures that a search tracks: objectives first, then bounded ones,
// then those only reported.
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

// tuningProblem describes the study for package tuning, from what is known before a block.
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
		p.Measures = append(p.Measures, m)
	}
	for _, b := range t.Constraints {
		p.Bounds = append(p.Bounds, tuning.Bound{Measure: slices.Index(names, b.Finding), Limit: b.Limit, Relative: b.Relative})
	}
	return p
}

// tuningSpace returns the grid of the plan's cells.
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

// foundLevers returns the installed levers as found by the first trial before a block, nil if none
// did.
func foundLevers(o *analysis.Observations, before int) record.Cell {
	for i := range o.Run.Trials {
		if t := &o.Run.Trials[i]; t.Block < before && len(t.Control.Installed) > 0 {
			return t.Control.Installed
		}
	}
	return nil
}

// leverValue returns a level as a number. For an installed lever it uses the value found, or the
// usual one. It returns NaN for words.
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

// lateBeyond stands in for a percentile among changes that never arrived: ten times the value of
// those that did or, if none did, of the trial's window.
const lateBeyond = 10

// tuningTrials returns the search's trials before a block, in the order in which they ran.
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

// tuningValue returns a trial's value of a measure, NaN if it has none.
func tuningValue(o *analysis.Observations, name string, t *record.Trial) float64 {
	m, _, ok := o.MeasureNamed(name)
	if !ok || !t.Validity.Valid {
		return math.NaN()
	}
	v := m.Searched().Of(o, t)
	if m.Beyond > 0 && missedShare(o, []*record.Trial{t}, groupOf(m)) > m.Beyond || math.IsInf(v, 1) { // infinite for values per change: see overChanges
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
