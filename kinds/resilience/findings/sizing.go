package findings

import (
	"math"
	"slices"
	"strconv"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/analysis/carrying"
	"github.com/meshtrial/meshtrial/drive/graph"
	"github.com/meshtrial/meshtrial/kinds/resilience"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
	"github.com/meshtrial/meshtrial/study"
)

// onOneNode puts the pods of all trials on the same node: nothing in a graph assigns nodes.
const onOneNode = "run it with only one schedulable node (kubectl cordon the others meanwhile), so that all trials are alike"

// addSizing compares the meshes' ways of carrying requests in the stated mesh.
func addSizing(o *analysis.Observations, f *record.Findings) {
	carrying.Add(o, f, onOneNode, graphWays)
}

// track is a group of cells in a plan that differ in one factor alone.
type track struct {
	cell  record.Cell // what they share
	cells []int
}

// along groups the cells that differ only in one factor by all other factors.
func along(o *analysis.Observations, factor string) []*track {
	var tracks []*track
	by := map[string]*track{}
	for i, cell := range o.Plan.Cells {
		rest := cell.With(nil)
		delete(rest, factor)
		r := by[rest.Key()]
		if r == nil {
			r = &track{cell: o.Plan.Short(rest)}
			by[rest.Key()], tracks = r, append(tracks, r)
		}
		r.cells = append(r.cells, i)
	}
	return tracks
}

// graphWays returns the ways of the cells that differ in the rate or in the number of pods, grouped
// by their other factors.
func graphWays(o *analysis.Observations) []*carrying.Ways {
	add, factor := addGraphWay, o.Plan.Study.SizedAlong()
	if factor == study.FactorReplicas {
		add = addPodsWay
	}
	var all []carrying.Of
	for _, r := range along(o, factor) {
		if len(r.cells) > 1 {
			other := r.cell.With(nil)
			delete(other, study.FactorMesh)
			delete(other, study.FactorSidecars)
			all = append(all, carrying.Of{Other: other, Add: func(z *carrying.Ways) { add(o, z, r) }})
		}
	}
	return carrying.Sort(all)
}

// addGraphWay adds the way of a group of cells. Cost per request is per call, both from the clients
// and between services.
func addGraphWay(o *analysis.Observations, z *carrying.Ways, r *track) {
	flow, err := resilience.Of(o.Plan.Study).Graph.Flow(graph.Load{Entry: resilience.Of(o.Plan.Study).Entry, RPS: 1})
	if err != nil {
		return
	}
	calls := 1.0
	for _, e := range flow.Edges {
		calls += e.Calls
	}
	lowest, highest := math.Inf(1), 0.0
	for _, i := range r.cells {
		if v, err := strconv.ParseFloat(o.Plan.Cells[i][study.FactorRate], 64); err == nil && len(o.Valid(i)) > 0 {
			lowest, highest = min(lowest, v*calls), max(highest, v*calls)
		}
	}
	points := func(of string, y func(s *trialScenario) float64) []stat.FitPoint {
		return ratePoints(o, r, calls, overOf(of), y)
	}
	machine := carrying.MachineSlopes(len(o.Units), points(record.SizedCPU, func(s *trialScenario) float64 {
		return s.trial.Scenario.CPU[record.PartMachine].TotalS() / overOf(record.SizedCPU)(s)
	}))
	cell := o.Plan.Cells[r.cells[0]]
	if cell[study.FactorMesh] == study.MeshNone {
		z.Bare = machine
		return
	}
	w := &carrying.Way{Name: carrying.SidecarsOf(cell[study.FactorMesh]), Cell: r.cell, Lowest: lowest, Highest: highest, Machine: machine, PlainText: plainText(cell)}
	p := carrying.Proxies{Place: record.PlaceSidecar, Passes: 2}
	if study.Ambient(cell) {
		w.Name, p.Place = cell[study.FactorSidecars], record.PlaceNode
	}
	count, one := proxiesOf(o, r)
	switch {
	case !one:
		z.Mixed = append(z.Mixed, w.Name)
		return
	case count == 0:
		return // no valid trial
	}
	p.Count = count
	w.Proxies, w.NeedsAgent = []carrying.Proxies{p}, needsAgent(o, r)
	if study.Waypoint(cell) {
		w.Proxies = append(w.Proxies, carrying.Proxies{Place: record.PlaceWaypoint, Count: 1, Passes: 1})
	}
	for _, u := range carrying.Uses {
		if !o.Plan.Study.Measured(u.Measure) {
			continue
		}
		w.Measure(u, len(o.Units), func(place record.Place) []stat.FitPoint {
			return points(u.Of, useAt(u.Of, place))
		})
		w.MeasureAgent(u, points(u.Of, agentUse(u.Of)))
	}
	z.All = append(z.All, w)
}

// plainText reports whether sidecars of a cell forward requests without mutual TLS.
func plainText(cell record.Cell) bool {
	return !study.Ambient(cell) && cell[study.FactorMTLS] == study.MTLSOff
}

// needsAgent reports whether a valid trial of the cells needed the mesh's node agent: for ztunnel,
// or for sidecars that rely on the agent for redirection.
func needsAgent(o *analysis.Observations, r *track) bool {
	return slices.ContainsFunc(r.cells, func(i int) bool {
		return slices.ContainsFunc(o.Valid(i), func(t *record.Trial) bool { return t.AgentForSidecars || t.Scenario.NodeProxies > 0 })
	})
}

// agentUse returns the use of cores or bytes by one node's agent; NaN if no trial measured it.
func agentUse(of string) func(*trialScenario) float64 {
	return func(s *trialScenario) float64 {
		cpu, all := s.trial.Scenario.CPU[record.PartNodeAgent]
		used := cpu.TotalS() / overOf(of)(s)
		if of == record.SizedMemory {
			used = analysis.Positive(float64(s.trial.Scenario.Memory[record.PartNodeAgent]))
		}
		if !all {
			return math.NaN()
		}
		return used / agentsOf(s)
	}
}

// useAt returns the use of cores or bytes by a trial's proxies at a place.
func useAt(of string, place record.Place) func(*trialScenario) float64 {
	part, shared := map[record.Place]string{record.PlaceNode: record.PartNode, record.PlaceWaypoint: record.PartWaypoint}[place]
	switch {
	case !shared:
		return useOf(of)
	case of == record.SizedMemory:
		return func(s *trialScenario) float64 { return analysis.Positive(float64(s.trial.Scenario.Memory[part])) }
	}
	return func(s *trialScenario) float64 {
		cpu, read := s.trial.Scenario.CPU[part]
		if !read {
			return math.NaN()
		}
		return cpu.TotalS() / overOf(of)(s)
	}
}

// useOf returns the use of cores or bytes by all proxies of a trial.
func useOf(of string) func(*trialScenario) float64 {
	if of == record.SizedMemory {
		return proxiesMemory
	}
	return func(s *trialScenario) float64 {
		used, _, _ := proxyUse(s)
		return used / overOf(of)(s)
	}
}

// overOf returns the time by which to divide a trial's calls. For CPU it is the time over which CPU
// was counted: all calls fall into it, and idle CPU accumulates over the same time.
func overOf(of string) func(*trialScenario) float64 {
	if of == record.SizedMemory {
		return seconds
	}
	return func(s *trialScenario) float64 { return s.trial.Scenario.CountedS }
}

func seconds(s *trialScenario) float64 { return float64(s.length) / 1e9 }

// ratePoints returns the results of valid trials, by calls per second over a time.
func ratePoints(o *analysis.Observations, r *track, calls float64, over, y func(s *trialScenario) float64) (out []stat.FitPoint) {
	unit := carrying.Units(o)
	for _, i := range r.cells {
		level, err := strconv.ParseFloat(o.Plan.Cells[i][study.FactorRate], 64)
		if err != nil {
			continue
		}
		for _, t := range o.Valid(i) {
			if s := scenarioOfTrial(o, t); s.length > 0 && over(s) > 0 {
				out = append(out, stat.FitPoint{X: float64(t.Scenario.Scheduled) * calls / over(s), Y: y(s), Level: level, Unit: unit[t.Block]})
			}
		}
	}
	return out
}

// proxiesOf returns the number of proxies in the cells' valid trials, 0 without any. It returns
// false if the trials differ, for example because pods ran on different nodes.
func proxiesOf(o *analysis.Observations, r *track) (count float64, one bool) {
	seen := false
	for _, i := range r.cells {
		for _, t := range o.Valid(i) {
			n := t.Scenario.NodeProxies
			for _, p := range t.Scenario.Pods {
				if p.Sidecar {
					n++
				}
			}
			if seen && float64(n) != count {
				return 0, false
			}
			seen, count = true, float64(n)
		}
	}
	return count, true
}

// proxiesMemory returns the memory of all proxies at the end of a trial; NaN if some could not be
// read.
func proxiesMemory(s *trialScenario) float64 {
	if s.trial.Scenario.NodeProxies > 0 {
		of := s.trial.Scenario.Memory
		if study.Waypoint(s.trial.Cell) {
			return analysis.Positive(float64(of[record.PartNode])) + analysis.Positive(float64(of[record.PartWaypoint]))
		}
		return analysis.Positive(float64(of[record.PartNode]))
	}
	total := math.NaN()
	var seen []string
	for _, p := range s.trial.Scenario.Pods {
		if !p.Sidecar || slices.Contains(seen, p.Service) {
			continue
		}
		if seen = append(seen, p.Service); len(seen) == 1 {
			total = 0
		}
		total += analysis.Positive(float64(s.trial.Scenario.Memory[p.Service+proxySuffix]))
	}
	return total
}
