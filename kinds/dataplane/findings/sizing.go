package findings

import (
	"math"
	"slices"
	"strconv"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/analysis/carrying"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
	"github.com/meshtrial/meshtrial/study"
)

// addSizing compares the ways of carrying requests in the stated mesh.
func addSizing(o *analysis.Observations, f *record.Findings) {
	carrying.Add(o, f, allOneWay, carriedWays)
}

// carriedWays returns the ways of the cells that differ in the rate, grouped by their other
// factors.
func carriedWays(o *analysis.Observations) []*carrying.Ways {
	var all []carrying.Of
	for _, g := range along(o, rateAxis) {
		if len(g.cells) > 1 {
			all = append(all, carrying.Of{Other: without(o, g.cell, study.FactorSidecars), Add: func(z *carrying.Ways) { addWay(o, z, g) }})
		}
	}
	return carrying.Sort(all)
}

// addWay adds the way of a track, unless no whole mesh can have it.
func addWay(o *analysis.Observations, z *carrying.Ways, g *track) {
	lowest, highest := math.Inf(1), 0.0
	for _, i := range g.cells {
		if v, err := strconv.ParseFloat(o.Plan.Cells[i][study.FactorRate], 64); err == nil && len(o.Valid(i)) > 0 {
			lowest, highest = min(lowest, v), max(highest, v)
		}
	}
	way, one := wayOf(o, g)
	generators, machine := dataplane.GeneratorsIn(o.Plan.Cells[g.cells[0]]), machineSlopes(o, g)
	switch {
	case !one:
		z.Mixed = append(z.Mixed, o.Plan.Cells[g.cells[0]][study.FactorSidecars])
		return
	case len(way) == 0:
		z.Bare, z.Idle = machine, idleOnNodes(o, g)
		return
	case !study.Carries(way), way.Has(record.PartClientNode) && generators > 1:
		return // the number of several clients' nodes is unknown
	}
	w := &carrying.Way{Name: o.Plan.Cells[g.cells[0]][study.FactorSidecars], Cell: g.cell, Lowest: lowest, Highest: highest, Machine: machine, NeedsAgent: needsAgent(o, g)}
	for _, place := range carrying.Places {
		n := len(way.At(place))
		if n == 0 {
			continue
		}
		if place == record.PlaceSidecar { // each generator has its own, and all are counted together
			n, w.Name = n+generators-1, carrying.SidecarsOf(o.Plan.Study.Mesh)
			w.PlainText = o.Plan.Cells[g.cells[0]][study.FactorMTLS] == study.MTLSOff
		}
		w.Proxies = append(w.Proxies, carrying.Proxies{Place: place, Count: float64(n), Passes: passesAt(way, place)})
	}
	for _, u := range carrying.Uses {
		if !o.Plan.Study.Measured(u.Measure) {
			continue
		}
		w.Measure(u, len(o.Units), func(place record.Place) []stat.FitPoint {
			return points(o, rateAxis, g, func(t *record.Trial) (float64, bool) { return usedAt(t, u.Of, place) })
		})
		w.MeasureAgent(u, points(o, rateAxis, g, func(t *record.Trial) (float64, bool) { return usedByAgent(t, u.Of) }))
	}
	z.All = append(z.All, w)
}

// idleOnNodes returns what one node proxy used of each resource in trials whose requests pass none.
func idleOnNodes(o *analysis.Observations, g *track) map[string][]stat.FitPoint {
	return map[string][]stat.FitPoint{
		record.SizedCPU: points(o, rateAxis, g, func(t *record.Trial) (float64, bool) {
			v := idleNode(o, t)
			return v / 1e3, stat.Finite(v)
		}),
		record.SizedMemory: points(o, rateAxis, g, func(t *record.Trial) (float64, bool) {
			v := analysis.Memory(t, record.PartIdleNode) / float64(t.IdleNodes)
			return v, stat.Finite(v)
		}),
	}
}

// wayOf returns the way of the requests of cells that differ in the rate, and false if valid trials
// took several.
func wayOf(o *analysis.Observations, g *track) (way record.Way, one bool) {
	seen := 0
	for _, i := range g.cells {
		for _, t := range o.Valid(i) {
			its := study.WayOfTrial(t)
			if seen++; seen > 1 && !slices.Equal(its, way) {
				return nil, false
			}
			way = its
		}
	}
	if seen == 0 {
		way = study.WayOf(o.Plan.Cells[g.cells[0]])
	}
	return way, true
}

// passesAt returns how often a request on a way passes a proxy at a place.
func passesAt(way record.Way, place record.Place) (n float64) {
	for _, part := range way {
		if p, ok := record.ProxyOf(part); ok && p.Place == place {
			n++
		}
	}
	return n
}

// usedAt returns the total use by a trial's proxies at a place, in cores or bytes.
func usedAt(t *record.Trial, of string, place record.Place) (sum float64, all bool) {
	all = t.Window.Seconds > 0
	for _, part := range study.WayOfTrial(t).At(place) {
		v := analysis.Memory(t, part)
		if of == record.SizedCPU {
			cpu, ok := t.CPU[part]
			v, all = cpu.TotalS()/t.Window.Seconds, all && ok
		}
		sum, all = sum+v, all && stat.Finite(v)
	}
	return sum, all
}

// needsAgent reports whether a valid trial of a track needed the mesh's node agent: all trials do
// whose requests pass node proxies, or whose sidecars rely on the agent for redirection.
func needsAgent(o *analysis.Observations, g *track) bool {
	return slices.ContainsFunc(g.cells, func(i int) bool {
		return slices.ContainsFunc(o.Valid(i), func(t *record.Trial) bool {
			return t.AgentForSidecars && len(study.WayOfTrial(t)) > 0 || len(study.WayOfTrial(t).At(record.PlaceNode)) > 0
		})
	})
}

// usedByAgent returns the use of one node's agent in a trial, in cores or bytes.
func usedByAgent(t *record.Trial, of string) (float64, bool) {
	cpu, all := t.CPU[record.PartNodeAgent]
	v := cpu.TotalS() / t.Window.Seconds
	if of == record.SizedMemory {
		v = analysis.Memory(t, record.PartNodeAgent)
	}
	v /= float64(t.NodeAgents)
	return v, all && t.NodeAgents > 0 && stat.Finite(v)
}

// machineSlopes returns what a request takes of the whole machine; nil if that was not measured. If
// nodes are several machines, only the server's was read.
func machineSlopes(o *analysis.Observations, g *track) []float64 {
	if !o.Plan.Study.Measured(study.MeasureCPU) {
		return nil
	}
	return carrying.MachineSlopes(len(o.Units), points(o, rateAxis, g, func(t *record.Trial) (float64, bool) {
		cpu, ok := t.CPU[record.PartMachine]
		return cpu.TotalS() / t.Window.Seconds, ok && t.Window.Seconds > 0 && (t.Others != nil || len(nodesOf(t)) < 2)
	}))
}
