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
	factor string
	cell   record.Cell // what they share
	cells  []int
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
			r = &track{factor: factor, cell: o.Plan.Short(rest)}
			by[rest.Key()], tracks = r, append(tracks, r)
		}
		r.cells = append(r.cells, i)
	}
	return tracks
}

// valid returns the valid trials of the cells.
func (r *track) valid(o *analysis.Observations) (out []*record.Trial) {
	for _, i := range r.cells {
		out = append(out, o.Valid(i)...)
	}
	return out
}

// points returns the results of valid trials by x. It leaves out cells without a numeric level, and
// trials without an x.
func (r *track) points(o *analysis.Observations, x, y func(*trialScenario) float64) (out []stat.FitPoint) {
	unit := carrying.Units(o)
	for _, i := range r.cells {
		level, err := strconv.ParseFloat(o.Plan.Cells[i][r.factor], 64)
		if err != nil {
			continue
		}
		for _, t := range o.Valid(i) {
			s := scenarioOfTrial(o, t)
			if at := x(s); s.length > 0 && stat.Finite(at) {
				out = append(out, stat.FitPoint{X: at, Y: y(s), Level: level, Unit: unit[t.Block]})
			}
		}
	}
	return out
}

// same returns a number that all valid trials of the cells share, 0 without any, and false if they
// differ, for example because pods ran on different nodes.
func (r *track) same(o *analysis.Observations, of func(*record.Trial) int) (n int, one bool) {
	for i, t := range r.valid(o) {
		if v := of(t); i == 0 {
			n = v
		} else if v != n {
			return 0, false
		}
	}
	return n, true
}

func nodeProxies(t *record.Trial) int { return t.Scenario.NodeProxies }

// allProxies returns the number of proxies in a trial, except a waypoint.
func allProxies(t *record.Trial) int {
	n := t.Scenario.NodeProxies
	for _, p := range t.Scenario.Pods {
		if p.Sidecar {
			n++
		}
	}
	return n
}

// way returns the way of the cells before its use is added; nil without valid trials, or if they
// have different numbers of proxies.
func (r *track) way(o *analysis.Observations, z *carrying.Ways, count func(*record.Trial) int) *carrying.Way {
	cell := o.Plan.Cells[r.cells[0]]
	w := &carrying.Way{Name: carrying.SidecarsOf(cell[study.FactorMesh]), Cell: r.cell, PlainText: cell[study.FactorMTLS] == study.MTLSOff}
	p := carrying.Proxies{Place: record.PlaceSidecar, Passes: 2}
	if study.Ambient(cell) {
		w.Name, w.PlainText, p.Place = cell[study.FactorSidecars], false, record.PlaceNode
	}
	n, one := r.same(o, count)
	if !one {
		z.Mixed = append(z.Mixed, w.Name)
	}
	if n == 0 {
		return nil
	}
	p.Count = float64(n)
	w.Proxies = []carrying.Proxies{p}
	// ztunnel needs the mesh's node agent, as do sidecars that rely on it for redirection.
	w.NeedsAgent = slices.ContainsFunc(r.valid(o), func(t *record.Trial) bool { return t.AgentForSidecars || t.Scenario.NodeProxies > 0 })
	return w
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
		return r.points(o, func(s *trialScenario) float64 { return float64(s.trial.Scenario.Scheduled) * calls / overOf(of, s) }, y)
	}
	machine := carrying.MachineSlopes(len(o.Units), points(record.SizedCPU, func(s *trialScenario) float64 {
		return s.trial.Scenario.CPU[record.PartMachine].TotalS() / s.trial.Scenario.CountedS
	}))
	cell := o.Plan.Cells[r.cells[0]]
	if cell[study.FactorMesh] == study.MeshNone {
		z.Bare = machine
		return
	}
	w := r.way(o, z, allProxies)
	if w == nil {
		return
	}
	w.Lowest, w.Highest, w.Machine = lowest, highest, machine
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

// partUse returns the use of cores or bytes by a part; NaN if it was not measured.
func partUse(of, part string) func(*trialScenario) float64 {
	return func(s *trialScenario) float64 {
		if of == record.SizedMemory {
			return memoryOf(s, part)
		}
		return cpuOf(s, part) / 1000
	}
}

// agentUse returns the use of cores or bytes by one node's agent; NaN if no trial measured it.
func agentUse(of string) func(*trialScenario) float64 {
	all := partUse(of, record.PartNodeAgent)
	return func(s *trialScenario) float64 { return all(s) / agentsOf(s) }
}

// useAt returns the use of cores or bytes by a trial's proxies at a place.
func useAt(of string, place record.Place) func(*trialScenario) float64 {
	switch place {
	case record.PlaceNode:
		return partUse(of, record.PartNode)
	case record.PlaceWaypoint:
		return partUse(of, record.PartWaypoint)
	}
	return useOf(of)
}

// useOf returns the use of cores or bytes by all proxies of a trial.
func useOf(of string) func(*trialScenario) float64 {
	if of == record.SizedMemory {
		return proxiesMemory
	}
	return func(s *trialScenario) float64 {
		used, _, _ := proxyUse(s)
		return used / s.trial.Scenario.CountedS
	}
}

// overOf returns the time by which to divide a trial's calls. For CPU it is the time over which CPU
// was counted: all calls fall into it, and idle CPU accumulates over the same time.
func overOf(of string, s *trialScenario) float64 {
	if of == record.SizedMemory {
		return float64(s.length) / 1e9
	}
	return s.trial.Scenario.CountedS
}

// proxiesMemory returns the memory of all proxies at the end of a trial; NaN if some could not be
// read.
func proxiesMemory(s *trialScenario) float64 {
	if s.trial.Scenario.NodeProxies > 0 {
		total := memoryOf(s, record.PartNode)
		if study.Waypoint(s.trial.Cell) {
			total += memoryOf(s, record.PartWaypoint)
		}
		return total
	}
	total, seen := 0.0, map[string]bool{}
	for _, p := range s.trial.Scenario.Pods {
		if p.Sidecar && !seen[p.Service] {
			seen[p.Service] = true
			total += memoryOf(s, p.Service+proxySuffix)
		}
	}
	if len(seen) == 0 {
		return math.NaN()
	}
	return total
}
