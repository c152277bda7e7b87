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

// A Measure turns a trial into one number: the definition of a finding and how to compute it.
type Measure struct {
	finding.Def
	// Alone means that cells of this study are not compared with their baseline.
	Alone bool
	// Quantile is the latency quantile, or 0 for other measures. Timed marks a latency counted
	// from the intended time, which includes the generator's lateness.
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
	// Unguarded is such a percentile without a minimum number of observations. Searches use it:
	// they only ask whether more than its share exceeds a bound, which the slowest of a few
	// observations answers.
	Unguarded func(*Observations, *record.Trial) float64
	Of        func(*Observations, *record.Trial) float64 // NaN if the trial has none
	// Step returns the step in which a cell's values are read, in the measure's unit, if it
	// exceeds [Observations.Resolution] of the value; otherwise it is nil.
	Step func(o *Observations, cell int) float64
	// Warn returns remarks about a cell's value; may be nil.
	Warn func(o *Observations, cell int) []note.Note
	// Partial returns notes if a cell's value, and so its differences, omits something that
	// would change it. nil means that nothing is omitted.
	Partial func(o *Observations, cell int) []note.Note
	// Never returns why a cell has no value although trials do: in some of them the timed event
	// never came, and Of is infinite. A mean of the others would cover only the trials in which
	// it came. It returns false if it came in all trials, and is nil for events that always
	// come.
	Never func(o *Observations, cell int) (note.Note, bool)
}

// MeasureOf returns the measure that computes the finding of a name from a trial.
func MeasureOf(name string, of func(*Observations, *record.Trial) float64) Measure {
	return Measure{Def: finding.Def{Name: name}, Of: of}
}

// LatencyQuantile returns a quantile of the latency of all blocks' requests.
func LatencyQuantile(name string, q record.Quantile) Measure {
	m := MeasureOf(name, func(o *Observations, t *record.Trial) float64 { return o.Latency(t).Quantile(float64(q)) })
	m.Quantile, m.Unguarded = float64(q), m.Of
	return m
}

// LatencyMeasures returns the percentiles of the latency of all blocks' requests.
func LatencyMeasures(s *study.Study) []Measure {
	return OfFamily(s, study.FamilyLatency, func(d finding.Def) Measure { return LatencyQuantile(d.Name, d.At) })
}

// OfFamily returns a measure for each finding of a family, from its part or quantile.
func OfFamily(s *study.Study, family string, measure func(finding.Def) Measure) []Measure {
	var out []Measure
	for _, d := range s.Kind.Findings().Family(family) {
		out = append(out, measure(d))
	}
	return out
}

// Searched returns the measure as searches use it, for individual trials.
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

// Stepping returns the measure with a larger step between values.
func (m Measure) Stepping(step func(o *Observations, cell int) float64) Measure {
	m.Step = step
	return m
}

// Reaching returns the measure of something that may never come: it is infinite in a trial in
// which that did not come. what names it.
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

// Say formats a value of the measure with its unit.
func (m Measure) Say(v float64) string { return words.Quantity(v, m.Unit) }

// Measures lists what the study measures, in the order of reports.
func (o *Observations) Measures() []Measure {
	s := o.Plan.Study
	return slices.DeleteFunc(Defined(s, o.kind.Measures(s)), func(m Measure) bool { return s.Lacks(m.Part) })
}

// Defined joins measures with the definitions of their findings, and drops those that the study
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

// MeasureNamed finds the measure of a finding's name, and reports whether the finding is the
// difference from the baseline.
func (o *Observations) MeasureNamed(name string) (m Measure, overhead, ok bool) {
	name, overhead = strings.CutSuffix(name, finding.Overhead)
	for _, m := range o.Measures() {
		if m.Name == name && (!overhead || m.Compared) {
			return m, overhead, true
		}
	}
	return Measure{}, overhead, false
}

// CPUPerRequest returns a part's CPU time in microseconds per request answered within the
// window, at whose edges the CPU was read.
func CPUPerRequest(t *record.Trial, part string, of func(record.CPU) float64) float64 {
	cpu, ok := t.CPU[part]
	if !ok || t.Load.AnsweredWithin() <= 0 {
		return math.NaN()
	}
	return of(cpu) * 1e6 / float64(t.Load.AnsweredWithin())
}

// Memory returns a part's proportional set size in bytes, or its working set if only a kubelet
// reported it.
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

// Block returns a cell's value in a block: the mean of its valid trials, or NaN if there are
// none.
func (o *Observations) Block(cell, block int, m Measure) float64 {
	return meanOf(o.trials[cell][block], func(t *record.Trial) float64 { return m.Of(o, t) })
}

// Unit returns a cell's value in a unit, given by its index in [Observations.Units]: the mean
// of the unit's blocks, or NaN if there are none. For a quantile it is the unit's pseudo-value
// of the quantile of all requests: see [stat.PseudoQuantiles].
func (o *Observations) Unit(cell, unit int, m Measure) float64 {
	if m.Quantile > 0 {
		return o.pseudoValues(pooled{cell, m.Quantile, bothTurns})[unit]
	}
	return meanOf(o.Units[unit], func(block int) float64 { return o.Block(cell, block, m) })
}

// meanOf returns the mean of the values that are numbers, one for each block or trial.
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

// pooled identifies a quantile of a cell's requests in all blocks, from one of a baseline's two
// turns in each block or from both.
type pooled struct {
	cell     int
	quantile float64
	turn     int
}

const bothTurns = -1

// turns identifies a cell's requests, from one of a baseline's two turns or from both, in the
// blocks that another cell has too; beside is that cell's index, or "".
type turns struct {
	cell, turn int
	beside     string
}

// pseudoValues returns a quantile's pseudo-values, one for each unit.
func (o *Observations) pseudoValues(p pooled) []float64 {
	out, ok := o.pseudo[p]
	if !ok {
		out = stat.PseudoQuantiles(o.latencies(p.cell, p.turn), p.quantile)
		o.pseudo[p] = out
	}
	return out
}

// latencies returns the distributions of a cell's latency, one for each unit, over the blocks
// in which the cell beside, if any, has valid trials too. For one of a baseline's two turns it
// uses only blocks that have both: a slow block whose twin was left out would affect only one
// side.
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

// Values returns a cell's numbers, one for each unit, or nil if no trial has one.
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

// Pairs pairs a cell with its baseline, one pair for each unit: the mean of its blocks that
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

// quantileBlocks returns the distributions behind Pairs.
func (o *Observations) quantileBlocks(cell, base int) []stat.QuantileBlock {
	bases, tests := o.latencies(base, bothTurns, cell), o.latencies(cell, bothTurns, base)
	out := make([]stat.QuantileBlock, len(bases))
	for i := range out {
		out[i] = stat.QuantileBlock{Base: bases[i : i+1], Test: tests[i]}
	}
	return out
}

// twice returns the two turns of a baseline cell in each unit that has both.
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

// Positive returns NaN for 0, which records that nothing was measured.
func Positive(v float64) float64 {
	if v <= 0 {
		return math.NaN()
	}
	return v
}
