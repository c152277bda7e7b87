package analysis

import (
	"math"

	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/stat"
)

// Memory is counted in pages, in bytes. For other quantities, resolution is the step as a
// share of the value: the width of the histograms' buckets, whose values have three
// significant digits, and at least the step of CPU time counters.
const (
	pageSize   = 4096
	resolution = 1e-3
)

// Resolution returns the step in which a measure's values in some cells are read, in its unit.
// No difference below it is evidence of anything. Counts and sizes of configuration are exact:
// 0.
func (o *Observations) Resolution(m Measure, cells ...int) float64 {
	if finding.Exact(m.Unit) || m.Exact {
		return 0
	}
	if m.Unit == finding.UnitBytes {
		return pageSize
	}
	step := 0.0
	for _, cell := range cells {
		if v := stat.Mean(o.Values(cell, m), stat.Options{}).Value; stat.Finite(v) {
			step = max(step, resolution*math.Abs(v))
		}
		if m.Step != nil {
			step = max(step, orZero(m.Step(o, cell)))
		}
	}
	return step
}

// Floor returns the A/A noise floor of a measure in a baseline cell, and the mean value there.
func (o *Observations) Floor(base int, m Measure) (f stat.Floor, level float64) {
	f = stat.NoiseFloor(o.deployed(o.twice(base, m)), stat.Options{})
	level = stat.Mean(o.Values(base, m), stat.Options{}).Value
	return f.AtLeast(o.Resolution(m, base)), level
}

func orZero(v float64) float64 {
	if !stat.Finite(v) {
		return 0
	}
	return v
}

// twins returns the two turns of a baseline cell in each block that has both, by unit; for a
// quantile, those of each single trial.
func (o *Observations) twins(base int, m Measure) [][]stat.Pair {
	of := m.Searched().Of
	var out [][]stat.Pair
	for _, blocks := range o.Units {
		var unit []stat.Pair
		for _, block := range blocks {
			if t := o.trials[base][block]; len(t) == 2 {
				unit = append(unit, stat.Pair{Base: of(o, t[0]), Test: of(o, t[1])})
			}
		}
		out = append(out, unit)
	}
	return out
}

// deployed returns the differences between deployments. Pods that served all blocks give only
// one such difference, the mean, however many blocks there are.
func (o *Observations) deployed(twice []stat.Pair) []stat.Pair {
	if !o.SamePods() {
		return twice
	}
	var one stat.Pair
	n := 0.0
	for _, p := range twice {
		if stat.Finite(p.Base) && stat.Finite(p.Test) {
			one.Base, one.Test, n = one.Base+p.Base, one.Test+p.Test, n+1
		}
	}
	if n == 0 {
		return nil
	}
	return []stat.Pair{{Base: one.Base / n, Test: one.Test / n}}
}

// floors lists the noise floors of every compared measure, by baseline cell, with warnings
// about anything unusual.
func (o *Observations) floors(measures []Measure) (out []record.NoiseFloor, warnings []note.Note) {
	for _, m := range measures {
		if !m.Compared {
			continue
		}
		for cell := range o.Plan.Cells {
			if !o.Plan.IsBaseline(o.Plan.Cells[cell]) {
				continue
			}
			f, level := o.Floor(cell, m)
			if math.IsNaN(f.Value) || math.IsNaN(level) {
				continue
			}
			n := record.NoiseFloor{Measure: m.Name, Cell: o.Short(cell), Floor: f.Value, Unit: m.Unit, Blocks: f.Blocks}
			if level > 0 {
				n.RelativeRatio = f.Value / level
			}
			if !o.SamePods() { // a single pair of deployments does not show how they differ
				c := stat.VarianceComponents(o.twins(cell, m))
				n.BlocksRatio, n.DeploymentsRatio, n.TrialsRatio = orZero(c.Blocks), orZero(c.Deployments), orZero(c.Trials)
			}
			out = append(out, n)
			if f.Systematic {
				warnings = append(warnings, noteSystematic.Of(m.Name, o.Plan.Label(o.Plan.Cells[cell])))
			}
		}
	}
	return out, warnings
}
