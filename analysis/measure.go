package analysis

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/stat"
	"github.com/meshtrial/meshtrial/study"
)

// A measure turns a trial into one number: a finding's definition, and how it
// is computed.
type Measure struct {
	finding.Def
	// Alone says that cells of this study are not compared with their baseline.
	Alone bool
	// Quantile is the latency quantile that the measure is; 0 for others. Timed says that it
	// is a latency from intended time, which includes the generator's lateness.
	Quantile float64
	Timed    bool
	// Typical marks measures that scatter around a typical value, such as CPU time per request:
	// see [stat.Typical]. Counts of rare events use the mean instead.
	Typical bool
	// Beyond is, for percentiles of what trials count, the share that lies above the value;
	// MinCount is how many observations are needed to leave one there, and Counted names them
	// ("change-proxy pairs").
	Beyond   float64
	MinCount int
	Counted  string
	// Unguarded is such a percentile without a minimum of observations. Searches use it: they
	// only ask whether more than its share lies beyond a bound, which the slowest of few
	// answers.
	Unguarded func(*Observations, *record.Trial) float64
	Of        func(*Observations, *record.Trial) float64 // NaN if the trial has none
	// Step is the step in which a cell's values are read, in the measure's unit, if it exceeds
	// [resolution] of the value; else nil.
	Step func(o *Observations, cell int) float64
	// Warn returns remarks about a cell's value; nil for none.
	Warn func(o *Observations, cell int) []note.Note
	// Partial says that a cell's value, and so its differences, omit something that would
	// change it; nil: nothing is omitted.
	Partial func(o *Observations, cell int) []note.Note
	// Never says why a cell has no value although trials have one: in some of them what is
	// timed never came, and their Of is infinite. A mean of the others would cover only those
	// in which it did. false if it came in all; nil for measures of what always comes.
	Never func(o *Observations, cell int) (note.Note, bool)
}

// MeasureOf is how the finding of a name is computed from a trial.
func MeasureOf(name string, of func(*Observations, *record.Trial) float64) Measure {
	return Measure{Def: finding.Def{Name: name}, Of: of}
}

// LatencyQuantile is a quantile of the latency of all blocks' requests.
func LatencyQuantile(name string, q record.Quantile) Measure {
	m := MeasureOf(name, func(o *Observations, t *record.Trial) float64 { return o.Latency(t).Quantile(float64(q)) })
	m.Quantile, m.Unguarded = float64(q), m.Of
	return m
}

// LatencyMeasures are the percentiles of latency, of all blocks' requests.
func LatencyMeasures(s *study.Study) []Measure {
	return OfFamily(s, study.FamilyLatency, func(d finding.Def) Measure { return LatencyQuantile(d.Name, d.At) })
}

// OfFamily computes each finding of a family by its part or quantile.
func OfFamily(s *study.Study, family string, measure func(finding.Def) Measure) []Measure {
	var out []Measure
	for _, d := range s.Kind.Findings().Family(family) {
		out = append(out, measure(d))
	}
	return out
}

// Searched is the measure as searches use it, of each trial by itself.
func (m Measure) Searched() Measure {
	if m.Unguarded != nil {
		m.Of, m.Quantile = m.Unguarded, 0
	}
	return m
}

// Warning returns the measure with remarks about a cell's value.
func (m Measure) Warning(warn func(o *Observations, cell int) []note.Note) Measure {
	m.Warn = warn
	return m
}

// Stepping returns the measure with a larger step of its values.
func (m Measure) Stepping(step func(o *Observations, cell int) float64) Measure {
	m.Step = step
	return m
}

// Reaching returns the measure of something that may never come: infinite in a trial in which
// it did not; what names it.
func (m Measure) Reaching(what string) Measure {
	of := m.Of
	m.Never = func(o *Observations, cell int) (note.Note, bool) {
		n, example, all := 0, "", o.Valid(cell)
		for _, t := range all {
			if math.IsInf(of(o, t), 1) {
				if n++; example == "" {
					example = t.ID
				}
			}
		}
		return noteNeverCame.Of(n, len(all), what, example), n > 0
	}
	return m
}

// Say writes a value of the measure with its unit.
func (m Measure) Say(v float64) string { return words.Quantity(v, m.Unit) }

// Measures lists what the study measures, in the order of reports.
func (o *Observations) Measures() []Measure {
	s := o.Plan.Study
	return slices.DeleteFunc(Defined(s, o.kind.Measures(s)), func(m Measure) bool { return s.Lacks(m.Part) })
}

// Defined joins measures with the definitions of their findings, and leaves out what the study
// does not measure.
func Defined(s *study.Study, all []Measure) []Measure {
	table, probes := s.Kind.Findings(), s.Kind.Measures()
	var out []Measure
	for _, m := range all {
		m.Def = table.Must(m.Name)
		if slices.Contains(probes, m.Probe) && !s.Measured(m.Probe) {
			continue
		}
		m.Unit, m.Compared = s.UnitOf(m.Def), m.Compared && !m.Alone
		out = append(out, m)
	}
	return out
}

// MeasureNamed finds the measure of a finding's name, and whether the finding is the
// difference to the baseline.
func (o *Observations) MeasureNamed(name string) (m Measure, overhead, ok bool) {
	name, overhead = strings.CutSuffix(name, finding.Overhead)
	for _, m := range o.Measures() {
		if m.Name == name && (!overhead || m.Compared) {
			return m, overhead, true
		}
	}
	return Measure{}, overhead, false
}

// CPUPerRequest is microseconds of a part's CPU for each request answered within the
// window, at whose edges the CPU was read.
func CPUPerRequest(t *record.Trial, part string, of func(record.CPU) float64) float64 {
	cpu, ok := t.CPU[part]
	if !ok || t.Load.AnsweredWithin() <= 0 {
		return math.NaN()
	}
	return of(cpu) * 1e6 / float64(t.Load.AnsweredWithin())
}

// Memory is a part's proportional set size in bytes; its working set where a
// kubelet told it, and no more.
func Memory(t *record.Trial, part string) float64 {
	m := t.Memory[part]
	switch {
	case m.PSSBytes > 0:
		return float64(m.PSSBytes)
	case m.WorkingSetBytes > 0:
		return float64(m.WorkingSetBytes)
	}
	return math.NaN()
}

// Block is what a cell measured in a block: the mean of its valid trials
// there, NaN if there are none.
func (o *Observations) Block(cell, block int, m Measure) float64 {
	return meanOf(o.trials[cell][block], func(t *record.Trial) float64 { return m.Of(o, t) })
}

// Unit is a cell's value in a unit, by its place in [Observations.Units]: the mean of the
// unit's blocks, NaN if there are none. For a quantile it is the unit's pseudo-value of the
// quantile of all requests: see [stat.PseudoQuantiles].
func (o *Observations) Unit(cell, unit int, m Measure) float64 {
	if m.Quantile > 0 {
		return o.pseudoValues(pooled{cell, m.Quantile, bothTurns})[unit]
	}
	return meanOf(o.Units[unit], func(block int) float64 { return o.Block(cell, block, m) })
}

// meanOf is the mean of those values that are numbers, each of a block or trial.
func meanOf[T any](all []T, value func(T) float64) float64 {
	var sum float64
	n := 0
	for _, one := range all {
		if v := value(one); !math.IsNaN(v) {
			sum, n = sum+v, n+1
		}
	}
	return sum / float64(n)
}

// pooled is a quantile of a cell's requests in all blocks, of one of a
// baseline's two turns in each, or of both.
type pooled struct {
	cell     int
	quantile float64
	turn     int
}

const bothTurns = -1

// turns are a cell's requests, of one of a baseline's two turns or of both, in the
// blocks that another cell has too; beside is that cell's place, or "".
type turns struct {
	cell, turn int
	beside     string
}

// pseudoValues are a quantile's, one for each unit.
func (o *Observations) pseudoValues(p pooled) []float64 {
	out, ok := o.pseudo[p]
	if !ok {
		out = stat.PseudoQuantiles(o.latencies(p.cell, p.turn), p.quantile)
		o.pseudo[p] = out
	}
	return out
}

// latencies are the distributions of a cell's latency, one for each unit, of the
// blocks in which the cell beside, if there is one, has valid trials too. One of a
// baseline's two turns is of the blocks that have both: a slow block whose twin was
// left out would be on one side only.
func (o *Observations) latencies(cell, turn int, beside ...int) []stat.Counts {
	key := turns{cell, turn, fmt.Sprint(beside)}
	if known, ok := o.merged[key]; ok {
		return known
	}
	out := make([]stat.Counts, len(o.Units))
	o.merged[key] = out
	for i, blocks := range o.Units {
		var parts []stat.Counts
		for _, block := range blocks {
			if turn != bothTurns && len(o.trials[cell][block]) < 2 ||
				slices.ContainsFunc(beside, func(other int) bool { return len(o.trials[other][block]) == 0 }) {
				continue
			}
			for _, t := range o.trials[cell][block] {
				if turn == bothTurns || t.Repeat == turn {
					parts = append(parts, o.Latency(t))
				}
			}
		}
		out[i] = stat.Merge(parts...)
	}
	return out
}

// Values are a cell's numbers, one for each unit; nil if no trial has one.
func (o *Observations) Values(cell int, m Measure) []float64 {
	var out []float64
	any := false
	for i := range o.Units {
		v := o.Unit(cell, i, m)
		any = any || !math.IsNaN(v)
		out = append(out, v)
	}
	if !any {
		return nil
	}
	return out
}

// Pairs match a cell with its baseline, one pair for each unit: the mean of its blocks that
// have both.
func (o *Observations) Pairs(cell, base int, m Measure) []stat.Pair {
	out := make([]stat.Pair, len(o.Units))
	if m.Quantile > 0 {
		bases := stat.PseudoQuantiles(o.latencies(base, bothTurns, cell), m.Quantile)
		for i, test := range stat.PseudoQuantiles(o.latencies(cell, bothTurns, base), m.Quantile) {
			out[i] = stat.Pair{Base: bases[i], Test: test}
		}
		return out
	}
	for i, blocks := range o.Units {
		both := slices.DeleteFunc(slices.Clone(blocks), func(block int) bool {
			return math.IsNaN(o.Block(base, block, m)) || math.IsNaN(o.Block(cell, block, m))
		})
		out[i].Base = meanOf(both, func(block int) float64 { return o.Block(base, block, m) })
		out[i].Test = meanOf(both, func(block int) float64 { return o.Block(cell, block, m) })
	}
	return out
}

// quantileBlocks are the distributions behind Pairs.
func (o *Observations) quantileBlocks(cell, base int) []stat.QuantileBlock {
	bases, tests := o.latencies(base, bothTurns, cell), o.latencies(cell, bothTurns, base)
	out := make([]stat.QuantileBlock, len(bases))
	for i := range out {
		out[i] = stat.QuantileBlock{Base: bases[i : i+1], Test: tests[i]}
	}
	return out
}

// twice are the two turns of a baseline cell in each unit that has both.
func (o *Observations) twice(base int, m Measure) []stat.Pair {
	var out []stat.Pair
	for i, blocks := range o.Units {
		both := slices.DeleteFunc(slices.Clone(blocks), func(block int) bool { return len(o.trials[base][block]) < 2 })
		if len(both) == 0 {
			continue
		}
		if m.Quantile > 0 {
			out = append(out, stat.Pair{Base: o.pseudoValues(pooled{base, m.Quantile, 0})[i], Test: o.pseudoValues(pooled{base, m.Quantile, 1})[i]})
			continue
		}
		turn := func(n int) float64 {
			return meanOf(both, func(block int) float64 { return m.Of(o, o.trials[base][block][n]) })
		}
		out = append(out, stat.Pair{Base: turn(0), Test: turn(1)})
	}
	return out
}

// Positive is NaN for 0, which records what was not measured.
func Positive(v float64) float64 {
	if v <= 0 {
		return math.NaN()
	}
	return v
}
