package analysis

import (
	"strconv"

	"github.com/meshmark/meshmark/record"
	"github.com/meshmark/meshmark/stat"
	"github.com/meshmark/meshmark/study"
)

// probeFit marks findings fitted over cells that differ in one number.
const probeFit = "fit"

// What ends the names of fits.
const (
	fitIdle  = "_idle"
	fitSlope = "_slope"
)

// An axis is a factor of numbers that costs are fitted against.
type axis struct {
	factor string
	// cpu and memory are what ends the names of their slopes, cpuUnit and
	// memoryUnit these slopes' units; "" where nothing is fitted.
	cpu, cpuUnit       string
	memory, memoryUnit string
	// at is where a trial lies on it; false if nowhere.
	at func(*record.Trial) (float64, bool)
}

// axes are what costs are fitted against, in the order of reports.
var axes = []axis{
	{factor: study.FactorRate, cpu: fitSlope, cpuUnit: study.UnitPerRequest, memory: "_per_rps", memoryUnit: "bytes/rps", at: func(t *record.Trial) (float64, bool) {
		if _, err := strconv.ParseFloat(t.Cell[study.FactorRate], 64); err != nil || t.Load == nil || t.Window.Seconds <= 0 {
			return 0, false
		}
		return float64(t.Load.Completed) / t.Window.Seconds, true
	}},
	{factor: study.FactorConnections, memory: "_per_connection", memoryUnit: "bytes/connection", at: func(t *record.Trial) (float64, bool) {
		v, err := strconv.ParseFloat(t.Cell[study.FactorConnections], 64)
		return v, err == nil
	}},
}

// fits finds what each part costs when idle and with each further step along
// an axis that varies: of the rate, CPU (cpu_PART_idle, thousandths of a CPU,
// and cpu_PART_slope) and memory; of connections, memory. One level alone
// would spread the idle cost over its requests. The cell of such a finding
// lacks the axis' factor.
func (o *observations) fits() []record.Finding {
	if o.plan.Study.Plane() != study.PlaneData {
		return nil
	}
	var out []record.Finding
	for _, a := range axes {
		for _, g := range o.along(a.factor) {
			if len(g.cells) < 2 {
				continue
			}
			if o.plan.Study.Measured(study.MeasureCPU) && a.cpu != "" {
				for _, part := range cpuParts {
					out = append(out, o.fitCPU(a, g, part)...)
				}
			}
			if o.plan.Study.Measured(study.MeasureMemory) && a.memory != "" {
				for _, part := range proxyParts {
					out = append(out, o.fitMemory(a, g, part)...)
				}
			}
		}
	}
	return out
}

// A track is the cells that differ in one factor of numbers only.
type track struct {
	cell  record.Cell // what they share
	cells []int
}

// along groups the measured cells whose level of a factor is a number by all
// others.
func (o *observations) along(factor string) []*track {
	var groups []*track
	byKey := map[string]*track{}
	for i, cell := range o.plan.Cells {
		if _, err := strconv.ParseFloat(cell[factor], 64); err != nil || o.skipped(i) {
			continue
		}
		rest := cell.With(nil)
		delete(rest, factor)
		g := byKey[rest.Key()]
		if g == nil {
			g = &track{cell: o.plan.Short(rest)}
			byKey[rest.Key()] = g
			groups = append(groups, g)
		}
		g.cells = append(g.cells, i)
	}
	return groups
}

// points are where the valid trials of a line's cells lie.
func (o *observations) points(a axis, g *track, y func(*record.Trial) (float64, bool)) []stat.FitPoint {
	var out []stat.FitPoint
	for _, i := range g.cells {
		for _, t := range o.valid(i) {
			at, okX := a.at(t)
			v, okY := y(t)
			if okX && okY {
				out = append(out, stat.FitPoint{X: at, Y: v, Block: t.Block})
			}
		}
	}
	return out
}

func (o *observations) fitCPU(a axis, g *track, part string) []record.Finding {
	points := o.points(a, g, func(t *record.Trial) (float64, bool) {
		cpu, ok := t.CPU[part]
		return cpu.TotalS() / t.Window.Seconds, ok && t.Window.Seconds > 0
	})
	if len(points) == 0 {
		return nil
	}
	// CPU scatters in proportion to itself, and nearly so to the rate.
	fit := stat.LinearFit(points, func(x float64) float64 { return x }, stat.Options{})
	return []record.Finding{
		fitted(g, fit, "cpu_"+part+fitIdle, "mCPU", 1e3, fit.Intercept),
		fitted(g, fit, "cpu_"+part+a.cpu, a.cpuUnit, 1e6, fit.Slope),
	}
}

func (o *observations) fitMemory(a axis, g *track, part string) []record.Finding {
	points := o.points(a, g, func(t *record.Trial) (float64, bool) {
		v := memory(t, part)
		return v, finite(v)
	})
	if len(points) == 0 {
		return nil
	}
	// Memory scatters by about as much everywhere.
	fit := stat.LinearFit(points, func(float64) float64 { return 1 }, stat.Options{})
	return []record.Finding{fitted(g, fit, "memory_"+part+a.memory, a.memoryUnit, 1, fit.Slope)}
}

// fitted is the finding of a fit's intercept or slope.
func fitted(g *track, fit stat.Line, name, unit string, scale float64, e stat.Estimate) record.Finding {
	f := record.Finding{Name: name, Probe: probeFit, Cell: g.cell, Unit: unit, Blocks: e.Blocks, Verdict: record.VerdictMeasured}
	if e.Blocks < minPairs || !e.Defined() {
		return invalid(f, e.Blocks)
	}
	f.Estimate, f.Low, f.High = e.Value*scale, e.Low*scale, e.High*scale
	f.Warnings = append(append([]string(nil), e.Warnings...), fit.Warnings...)
	return f
}
