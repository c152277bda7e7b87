package analysis

import (
	"strconv"

	"github.com/meshmark/meshmark/record"
	"github.com/meshmark/meshmark/stat"
	"github.com/meshmark/meshmark/study"
)

// probeFit marks findings fitted over cells of several rates.
const probeFit = "fit"

// fits finds, where the rate varies, what each part costs when idle
// (cpu_PART_idle, thousandths of a CPU) and with each further request
// (cpu_PART_slope): one rate alone would spread the idle cost over its
// requests. The cell of such a finding has no rate.
func (o *observations) fits() []record.Finding {
	if !o.plan.Study.Measured(study.MeasureCPU) {
		return nil
	}
	type group struct {
		cell  record.Cell
		cells []int
	}
	var groups []*group
	byKey := map[string]*group{}
	for i, cell := range o.plan.Cells {
		if _, err := strconv.ParseFloat(cell[study.FactorRate], 64); err != nil {
			continue
		}
		rest := cell.With(nil)
		delete(rest, study.FactorRate)
		g := byKey[rest.Key()]
		if g == nil {
			g = &group{cell: o.plan.Short(rest)}
			byKey[rest.Key()] = g
			groups = append(groups, g)
		}
		g.cells = append(g.cells, i)
	}
	var out []record.Finding
	for _, g := range groups {
		if len(g.cells) < 2 {
			continue
		}
		for _, part := range cpuParts {
			out = append(out, o.fit(g.cell, g.cells, part)...)
		}
	}
	return out
}

func (o *observations) fit(cell record.Cell, cells []int, part string) []record.Finding {
	var points []stat.FitPoint
	for _, i := range cells {
		for _, t := range o.valid(i) {
			cpu, ok := t.CPU[part]
			if !ok || t.Load == nil || t.Window.Seconds <= 0 {
				continue
			}
			points = append(points, stat.FitPoint{
				X: float64(t.Load.Completed) / t.Window.Seconds, Y: cpu.TotalS() / t.Window.Seconds, Block: t.Block,
			})
		}
	}
	if len(points) == 0 {
		return nil
	}
	// CPU scatters in proportion to itself, and nearly so to the rate.
	line := stat.LinearFit(points, func(rps float64) float64 { return rps }, stat.Options{})
	finding := func(name, unit string, scale float64, e stat.Estimate) record.Finding {
		f := record.Finding{Name: "cpu_" + part + name, Probe: probeFit, Cell: cell, Unit: unit, Blocks: e.Blocks, Verdict: record.VerdictMeasured}
		if e.Blocks < minPairs || !e.Defined() {
			return invalid(f, e.Blocks)
		}
		f.Estimate, f.Low, f.High = e.Value*scale, e.Low*scale, e.High*scale
		f.Warnings = append(append([]string(nil), e.Warnings...), line.Warnings...)
		return f
	}
	return []record.Finding{
		finding("_idle", "mCPU", 1e3, line.Intercept),
		finding("_slope", study.UnitPerRequest, 1e6, line.Slope),
	}
}
