package findings

import (
	"slices"
	"strconv"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/analysis/carrying"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
	"github.com/meshtrial/meshtrial/study"
)

// An axis is a number in which cells differ, and against which costs are fitted.
type axis struct {
	factor string
	// on returns the position of a level of the factor, and the part of it that cells along the
	// axis share ("" for none); false if it has no position.
	on func(level string) (at float64, rest string, ok bool)
	// traffic means that the axis is traffic itself: total CPU is fitted, including idle use. Along
	// other axes it is CPU per request.
	traffic bool
	// cpu and memory are the suffixes of the slopes' names.
	cpu, memory string
	// at returns a trial's position, if that is more precise than its level.
	at func(*record.Trial) (float64, bool)
}

// rateAxis is traffic.
var rateAxis = axis{factor: study.FactorRate, on: numberLevel, traffic: true, cpu: dataplane.FitSlope, memory: dataplane.FitPerRPS, at: func(t *record.Trial) (float64, bool) {
	return float64(t.Load.AnsweredWithin()) / t.Window.Seconds, t.Load != nil && t.Window.Seconds > 0
}}

// axes are what costs are fitted against, in report order: traffic, and the size of the server
// proxy's configuration.
var axes = []axis{
	rateAxis,
	{factor: study.FactorConnections, on: numberLevel, cpu: "_per_connection", memory: "_per_connection"},
	sizeAxis(dataplane.PartClusters, "cluster"), sizeAxis(dataplane.PartListeners, "listener"), sizeAxis(dataplane.PartRoutes, "route"),
}

// sizeAxis returns a numeric part of a proxy's configuration.
func sizeAxis(kind, one string) axis {
	return axis{factor: dataplane.FactorFilters, on: func(level string) (float64, string, bool) {
		n, rest, ok := dataplane.PartNumber(level, kind)
		return float64(n), rest, ok
	}, cpu: "_per_" + one, memory: "_per_" + one}
}

func numberLevel(level string) (float64, string, bool) {
	v, err := strconv.ParseFloat(level, 64)
	return v, "", err == nil
}

// fits finds each part's idle cost, and its cost per step along a varying axis. For the rate these
// are CPU (cpu_PART_idle, in thousandths of a CPU, and cpu_PART_slope) and memory (memory_PART_idle
// and memory_PART_per_rps). For connections and the contents of the proxy's configuration they are
// CPU per request and memory. A single level would spread the idle cost over its requests. The cell
// of such a finding lacks the axis's factor.
func fits(o *analysis.Observations) []record.Finding {
	var out []record.Finding
	for _, a := range axes {
		for _, g := range along(o, a) {
			if len(g.cells) < 2 {
				continue
			}
			if o.Plan.Study.Measured(study.MeasureCPU) {
				for _, part := range a.parts(study.FitParts) {
					out = append(out, fitCPU(o, a, g, part)...)
				}
			}
			if o.Plan.Study.Measured(study.MeasureMemory) {
				for _, part := range a.parts(study.ProxyParts) {
					out = append(out, fitMemory(o, a, g, part)...)
				}
			}
		}
	}
	return out
}

// parts returns the parts whose cost an axis may change: the configuration's size only affects the
// server's proxy, and connections affect proxies.
func (a axis) parts(all []string) []string {
	switch a.factor {
	case dataplane.FactorFilters:
		return []string{record.PartServerProxy}
	case study.FactorConnections:
		return study.ProxyParts
	}
	return all
}

// A track is a group of cells that differ in one numeric factor only.
type track struct {
	cell  record.Cell // what they share
	cells []int
}

// along groups the measured cells that have a position on an axis by all other factors.
func along(o *analysis.Observations, a axis) []*track {
	var groups []*track
	byKey := map[string]*track{}
	for i, cell := range o.Plan.Cells {
		_, shared, ok := a.on(cell[a.factor])
		if !ok || o.Skipped(i) {
			continue
		}
		rest := without(o, cell, a.factor)
		if shared != "" {
			rest[a.factor] = shared
		}
		g := byKey[rest.Key()]
		if g == nil {
			g = &track{cell: o.Plan.Short(rest)}
			byKey[rest.Key()] = g
			groups = append(groups, g)
		}
		g.cells = append(g.cells, i)
	}
	return groups
}

// without returns a cell without a factor, and without the name of its variant if measured variants
// set the factor.
func without(o *analysis.Observations, cell record.Cell, factor string) record.Cell {
	rest := cell.With(nil)
	delete(rest, factor)
	if slices.ContainsFunc(o.Plan.VariedVariants(), func(v study.NamedLevels) bool { _, sets := v.Levels[factor]; return sets }) {
		delete(rest, study.FactorVariant)
	}
	return rest
}

// points returns the positions of the valid trials of a line's cells, with their unit.
func points(o *analysis.Observations, a axis, g *track, y func(*record.Trial) (float64, bool)) []stat.FitPoint {
	var out []stat.FitPoint
	unit := carrying.Units(o)
	for _, i := range g.cells {
		level, _, _ := a.on(o.Plan.Cells[i][a.factor])
		for _, t := range o.Valid(i) {
			at, okX := level, true
			if a.at != nil {
				at, okX = a.at(t)
			}
			v, okY := y(t)
			if okX && okY {
				out = append(out, stat.FitPoint{X: at, Y: v, Level: level, Unit: unit[t.Block]})
			}
		}
	}
	return out
}

// fitCPU fits the CPU that a part uses: its seconds per second along traffic, its seconds per
// request along other axes.
func fitCPU(o *analysis.Observations, a axis, g *track, part string) []record.Finding {
	points := points(o, a, g, func(t *record.Trial) (float64, bool) {
		cpu, ok := t.CPU[part]
		if a.traffic {
			return cpu.TotalS() / t.Window.Seconds, ok && t.Window.Seconds > 0
		}
		if !ok || t.Load.AnsweredWithin() == 0 {
			return 0, false
		}
		return cpu.TotalS() / float64(t.Load.AnsweredWithin()), true
	})
	if len(points) == 0 {
		return nil
	}
	if !a.traffic {
		fit := stat.LinearFit(points, func(float64) float64 { return 1 }, stat.Options{})
		return []record.Finding{o.Fitted("cpu_"+part+a.cpu, g.cell, fit.Slope, 1e9, fit.Warnings)}
	}
	// The scatter of CPU is proportional to CPU, and nearly so to the rate.
	fit := stat.LinearFit(points, func(x float64) float64 { return x }, stat.Options{})
	return []record.Finding{
		o.Fitted("cpu_"+part+dataplane.FitIdle, g.cell, fit.Intercept, 1e3, fit.Warnings),
		o.Fitted("cpu_"+part+a.cpu, g.cell, fit.Slope, 1e6, fit.Warnings),
	}
}

func fitMemory(o *analysis.Observations, a axis, g *track, part string) []record.Finding {
	points := points(o, a, g, func(t *record.Trial) (float64, bool) {
		v := analysis.Memory(t, part)
		return v, stat.Finite(v)
	})
	if len(points) == 0 {
		return nil
	}
	// The scatter of memory is about the same everywhere.
	fit := stat.LinearFit(points, func(float64) float64 { return 1 }, stat.Options{})
	out := []record.Finding{o.Fitted("memory_"+part+a.memory, g.cell, fit.Slope, 1, fit.Warnings)}
	if a.traffic {
		out = append(out, o.Fitted("memory_"+part+dataplane.FitIdle, g.cell, fit.Intercept, 1, fit.Warnings))
	}
	return out
}
