package analysis

import (
	"math"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
	"github.com/meshtrial/meshtrial/study"
)

// A measure turns a trial into one number.
type measure struct {
	name  string // "latency_p50", "cpu_client_proxy_per_request"...
	probe string
	unit  string
	// quantile is the latency quantile that the measure is; 0 for others.
	quantile float64
	// compared says that cells are set against their baseline.
	compared bool
	// beyond is the share of pairs of a change and a proxy that lie above
	// the value, in measures of convergence that are a percentile of them.
	beyond float64
	// changes is how many changes leave one beyond the value, in measures that
	// are a percentile of pairs; 0 for others.
	changes int
	// unguarded is such a percentile of however few pairs. Searches go by it:
	// they ask only whether more than its share of the pairs lies beyond a
	// bound, which of few pairs the slowest answers.
	unguarded func(*observations, *record.Trial) float64
	// signed says that the value may lie below zero.
	signed bool
	// net says that the value is what is left of a use without the idle one:
	// below zero it is noise.
	net bool
	// fault says that the value counts what must not happen: it is told
	// whatever the number of blocks, and is real if it is not zero.
	fault bool
	of    func(*observations, *record.Trial) float64 // NaN if the trial has none
	// warn says what is odd about a cell's value; nil for nothing.
	warn func(o *observations, cell int) []string
}

// say writes a value of the measure with its unit.
func (m measure) say(v float64) string { return quantity(v, m.unit) }

type quantile struct {
	name string
	q    float64
}

var quantiles = []quantile{{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p999", 0.999}}

// cpuParts and memoryParts are the parts of a trial in the order of reports.
var (
	cpuParts = []string{record.PartClientProxy, record.PartServerProxy, record.PartGenerator,
		record.PartWorker, record.PartControl, record.PartMachine}
	memoryParts = cpuParts[:len(cpuParts)-1]
)

// measuresOf lists what a study measures, in the order of reports.
func measuresOf(s *study.Study) []measure {
	if s.Plane() == study.PlaneControl {
		return controlMeasures(s)
	}
	if s.Plane() == study.PlaneResilience {
		return scenarioMeasures(s)
	}
	var out []measure
	if s.Measured(study.MeasureLatency) {
		for _, q := range quantiles {
			out = append(out, measure{
				name: "latency_" + q.name, probe: study.MeasureLatency, unit: study.UnitMicroseconds, quantile: q.q, compared: true,
				of: func(o *observations, t *record.Trial) float64 { return o.latency(t).Quantile(q.q) },
			})
		}
		out = append(out, measure{name: "throughput", probe: "throughput", unit: "rps", of: throughput})
	}
	if s.Measured(study.MeasureCPU) {
		for _, part := range cpuParts {
			out = append(out, measure{
				name: "cpu_" + part + "_per_request", probe: study.MeasureCPU, unit: study.UnitPerRequest, compared: part == record.PartMachine,
				of: func(_ *observations, t *record.Trial) float64 { return cpuPerRequest(t, part, record.CPU.TotalS) },
			})
		}
	}
	if s.Measured(study.MeasureMemory) {
		for _, part := range memoryParts {
			out = append(out, measure{
				name: "memory_" + part, probe: study.MeasureMemory, unit: study.UnitBytes,
				of: func(_ *observations, t *record.Trial) float64 { return memory(t, part) },
			})
		}
	}
	return slices.Concat(out, threadMeasures(s), moneyMeasures(s))
}

// measureNamed finds the measure that a finding's name speaks of, and whether
// the finding is the difference to the baseline.
func measureNamed(s *study.Study, finding string) (m measure, overhead, ok bool) {
	name, overhead := strings.CutSuffix(finding, "_overhead")
	for _, m := range measuresOf(s) {
		if m.name == name && (!overhead || m.compared) {
			return m, overhead, true
		}
	}
	return measure{}, overhead, false
}

// throughput is requests answered a second, where the cell asks for as many as
// possible; elsewhere the schedule sets it and it says nothing.
func throughput(_ *observations, t *record.Trial) float64 {
	if t.Load == nil || t.Cell[study.FactorRate] != study.RateMax || t.Window.Seconds <= 0 {
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
func (o *observations) block(cell, block int, m measure) float64 {
	var sum float64
	n := 0
	for _, t := range o.trials[cell][block] {
		if v := m.of(o, t); !math.IsNaN(v) {
			sum, n = sum+v, n+1
		}
	}
	return sum / float64(n)
}

// values are a cell's numbers, one for each block; nil if no trial has one.
func (o *observations) values(cell int, m measure) []float64 {
	var out []float64
	any := false
	for _, b := range o.blocks {
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
func (o *observations) pairs(cell, base int, m measure) []stat.Pair {
	var out []stat.Pair
	for _, b := range o.blocks {
		out = append(out, stat.Pair{Base: o.block(base, b, m), Test: o.block(cell, b, m)})
	}
	return out
}

// quantileBlocks are the distributions behind pairs.
func (o *observations) quantileBlocks(cell, base int) []stat.QuantileBlock {
	var out []stat.QuantileBlock
	for _, block := range o.blocks {
		var b stat.QuantileBlock
		for _, t := range o.trials[base][block] {
			b.Base = append(b.Base, o.latency(t))
		}
		if tests := o.trials[cell][block]; len(tests) > 0 {
			b.Test = o.latency(tests[0])
		}
		out = append(out, b)
	}
	return out
}

// twice are the two trials of a baseline cell in each block that has both.
func (o *observations) twice(base int, m measure) []stat.Pair {
	var out []stat.Pair
	for _, b := range o.blocks {
		trials := o.trials[base][b]
		if len(trials) < 2 {
			continue
		}
		out = append(out, stat.Pair{Base: m.of(o, trials[0]), Test: m.of(o, trials[1])})
	}
	return out
}
