package analysis

import (
	"math"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/finding"
	"github.com/meshtrial/meshtrial/probe"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
	"github.com/meshtrial/meshtrial/study"
)

// A measure turns a trial into one number: a finding's definition, and how it
// is computed.
type Measure struct {
	finding.Def
	// alone says that cells of this study are not set against their baseline.
	alone bool
	// Quantile is the latency quantile that the measure is; 0 for others.
	Quantile float64
	// beyond is the share of pairs of a change and a proxy that lie above
	// the value, in measures of convergence that are a percentile of them.
	beyond float64
	// changes is how many changes leave one beyond the value, in measures that
	// are a percentile of pairs; 0 for others.
	changes int
	// unguarded is such a percentile of however few pairs. Searches go by it:
	// they ask only whether more than its share of the pairs lies beyond a
	// bound, which of few pairs the slowest answers.
	unguarded func(*Observations, *record.Trial) float64
	Of        func(*Observations, *record.Trial) float64 // NaN if the trial has none
	// warn says what is odd about a cell's value; nil for nothing.
	warn func(o *Observations, cell int) []string
}

// MeasureOf is how the finding of a name is computed from a trial.
func MeasureOf(name string, of func(*Observations, *record.Trial) float64) Measure {
	return Measure{Def: finding.Def{Name: name}, Of: of}
}

// Warning is a measure that says what is odd about a cell's value.
func (m Measure) Warning(warn func(o *Observations, cell int) []string) Measure {
	m.warn = warn
	return m
}

// say writes a value of the measure with its unit.
func (m Measure) say(v float64) string { return words.Quantity(v, m.Unit) }

type quantile struct {
	Name string
	Q    float64
}

var Quantiles = []quantile{{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p999", 0.999}}

// cpuParts and memoryParts are the parts of a trial in the order of reports.
var (
	proxyParts  = record.ProxyParts()
	memoryParts = slices.Concat(proxyParts, []string{record.PartGenerator, record.PartWorker, record.PartControl})
	cpuParts    = slices.Concat(memoryParts, []string{record.PartMachine})
)

// Measures lists what the study measures, in the order of reports.
func (o *Observations) Measures() []Measure {
	s := o.Plan.Study
	return slices.DeleteFunc(defined(s, o.kind.Measures(s)), func(m Measure) bool { return s.Lacks(m.Part) })
}

// defined joins measures with the definitions of their findings, and leaves
// out those of what the study does not measure.
func defined(s *study.Study, all []Measure) []Measure {
	table, probes := s.Kind.Findings(), s.Kind.Measures()
	var out []Measure
	for _, m := range all {
		m.Def = table.Must(m.Name)
		if slices.Contains(probes, m.Probe) && !s.Measured(m.Probe) {
			continue
		}
		m.Unit, m.Compared = s.UnitOf(m.Def), m.Compared && !m.alone
		out = append(out, m)
	}
	return out
}

// dataMeasures lists what data-plane studies measure.
func dataMeasures(s *study.Study) []Measure {
	var out []Measure
	for _, q := range Quantiles {
		m := MeasureOf("latency_"+q.Name, func(o *Observations, t *record.Trial) float64 { return o.Latency(t).Quantile(q.Q) })
		m.Quantile = q.Q
		out = append(out, m)
	}
	if s.Measured(study.MeasureLatency) {
		out = append(out, MeasureOf(study.FindingThroughput, throughput))
	}
	for _, part := range cpuParts {
		out = append(out, MeasureOf("cpu_"+part+"_per_request", func(_ *Observations, t *record.Trial) float64 { return cpuPerRequest(t, part, record.CPU.TotalS) }))
	}
	for _, part := range memoryParts {
		out = append(out, MeasureOf("memory_"+part, func(_ *Observations, t *record.Trial) float64 { return memory(t, part) }))
	}
	return slices.Concat(out, threadMeasures(), probeMeasures(), moneyMeasures(s))
}

// probeMeasures are what probes count for each answered request.
func probeMeasures() []Measure {
	var out []Measure
	for _, p := range probe.All {
		for _, f := range p.Figures {
			for _, part := range study.ProbedParts() {
				out = append(out, MeasureOf(study.ProbeFinding(f.Name, part), func(_ *Observations, t *record.Trial) float64 {
					rise, ok := t.Probed[part][f.Name]
					if !ok || t.Load == nil || t.Load.Completed <= 0 {
						return math.NaN()
					}
					return float64(rise) / float64(t.Load.Completed)
				}))
			}
		}
	}
	return out
}

// measureNamed finds the measure that a finding's name speaks of, and whether
// the finding is the difference to the baseline.
func (o *Observations) measureNamed(name string) (m Measure, overhead, ok bool) {
	name, overhead = strings.CutSuffix(name, finding.Overhead)
	for _, m := range o.Measures() {
		if m.Name == name && (!overhead || m.Compared) {
			return m, overhead, true
		}
	}
	return Measure{}, overhead, false
}

// throughput is requests answered a second, where the cell asks for as many as
// possible; elsewhere the schedule sets it and it says nothing.
func throughput(_ *Observations, t *record.Trial) float64 {
	if t.Load == nil || !t.Load.Rate.IsMax() || t.Window.Seconds <= 0 {
		return math.NaN()
	}
	return float64(t.Load.Completed) / t.Window.Seconds
}

// cpuPerRequest is microseconds of a part's CPU for each answered request.
func cpuPerRequest(t *record.Trial, part string, of func(record.CPU) float64) float64 {
	cpu, ok := t.CPU[part]
	if !ok || t.Load == nil || t.Load.Completed <= 0 {
		return math.NaN()
	}
	return of(cpu) * 1e6 / float64(t.Load.Completed)
}

// memory is a part's proportional set size in bytes.
func memory(t *record.Trial, part string) float64 {
	m, ok := t.Memory[part]
	if !ok || m.PSSBytes <= 0 {
		return math.NaN()
	}
	return float64(m.PSSBytes)
}

// block is what a cell measured in a block: the mean of its valid trials
// there, NaN if there are none.
func (o *Observations) block(cell, block int, m Measure) float64 {
	var sum float64
	n := 0
	for _, t := range o.trials[cell][block] {
		if v := m.Of(o, t); !math.IsNaN(v) {
			sum, n = sum+v, n+1
		}
	}
	return sum / float64(n)
}

// values are a cell's numbers, one for each block; nil if no trial has one.
func (o *Observations) values(cell int, m Measure) []float64 {
	var out []float64
	any := false
	for _, b := range o.Blocks {
		v := o.block(cell, b, m)
		any = any || !math.IsNaN(v)
		out = append(out, v)
	}
	if !any {
		return nil
	}
	return out
}

// pairs set a cell beside its baseline, one pair for each block.
func (o *Observations) pairs(cell, base int, m Measure) []stat.Pair {
	var out []stat.Pair
	for _, b := range o.Blocks {
		out = append(out, stat.Pair{Base: o.block(base, b, m), Test: o.block(cell, b, m)})
	}
	return out
}

// quantileBlocks are the distributions behind pairs.
func (o *Observations) quantileBlocks(cell, base int) []stat.QuantileBlock {
	var out []stat.QuantileBlock
	for _, block := range o.Blocks {
		var b stat.QuantileBlock
		for _, t := range o.trials[base][block] {
			b.Base = append(b.Base, o.Latency(t))
		}
		if tests := o.trials[cell][block]; len(tests) > 0 {
			b.Test = o.Latency(tests[0])
		}
		out = append(out, b)
	}
	return out
}

// twice are the two trials of a baseline cell in each block that has both.
func (o *Observations) twice(base int, m Measure) []stat.Pair {
	var out []stat.Pair
	for _, b := range o.Blocks {
		trials := o.trials[base][b]
		if len(trials) < 2 {
			continue
		}
		out = append(out, stat.Pair{Base: m.Of(o, trials[0]), Test: m.Of(o, trials[1])})
	}
	return out
}
