package findings

import (
	"slices"
	"strconv"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/analysis/carrying"
	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/kinds/resilience"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
	"github.com/meshtrial/meshtrial/study"
)

// podsByNode returns the number of pods that were in the mesh until the end of a trial, by node.
func podsByNode(s *trialScenario) map[string]float64 {
	out := map[string]float64{}
	for _, p := range s.trial.Scenario.Pods {
		one, known := resilience.Of(s.study).Graph.Service(p.Service)
		if (p.GoneNS == 0 || p.BackNS > 0) && (p.Service == fault.LoadService || known && one.Sidecar) {
			out[p.Node]++
		}
	}
	return out
}

// podsIn returns the total over all nodes.
func podsIn(s *trialScenario) (n float64) {
	for _, on := range podsByNode(s) {
		n += on
	}
	return n
}

// podsOnNode returns the maximum over the nodes.
func podsOnNode(s *trialScenario) (n float64) {
	for _, on := range podsByNode(s) {
		n = max(n, on)
	}
	return n
}

// podPoints returns the results of valid trials in cells with different numbers of pods.
func podPoints(o *analysis.Observations, r *track, y func(s *trialScenario) float64) (out []stat.FitPoint) {
	unit := carrying.Units(o)
	for _, i := range r.cells {
		level, err := strconv.ParseFloat(o.Plan.Cells[i][study.FactorReplicas], 64)
		if err != nil {
			continue // the graph's numbers
		}
		for _, t := range o.Valid(i) {
			if s := scenarioOfTrial(o, t); s.length > 0 {
				out = append(out, stat.FitPoint{X: podsIn(s), Y: y(s), Level: level, Unit: unit[t.Block]})
			}
		}
	}
	return out
}

// nodesOf returns the number of nodes with a proxy that had pods in the cells' valid trials, and
// false if the trials differ.
func nodesOf(o *analysis.Observations, r *track) (nodes int, one bool) {
	for _, i := range r.cells {
		for _, t := range o.Valid(i) {
			if n := t.Scenario.NodeProxies; nodes > 0 && n != nodes {
				return 0, false
			}
			nodes = t.Scenario.NodeProxies
		}
	}
	return nodes, true
}

// addPods adds the resources of all proxies of a mesh per additional pod, and the remainder, if a
// study varies the number of pods of its services. The cell of such a finding lacks that factor.
func addPods(o *analysis.Observations, f *record.Findings) {
	for _, r := range along(o, study.FactorReplicas) {
		cell := o.Plan.Cells[r.cells[0]]
		if len(r.cells) < 2 || cell[study.FactorMesh] == study.MeshNone {
			continue
		}
		nodes, one := nodesOf(o, r)
		if !one {
			f.Warnings = append(f.Warnings, notePodUnknown.Of(o.Plan.Label(r.cell)))
			continue
		}
		var warnings []note.Note
		if nodes > 0 {
			warnings = []note.Note{notePodsShare.Of()}
		}
		for _, u := range []struct{ of, measure, slope, rest string }{
			{record.SizedCPU, study.MeasureCPU, resilience.FindingPodCPU, resilience.FindingBareCPU}, {record.SizedMemory, study.MeasureMemory, resilience.FindingPodMemory, resilience.FindingBareMemory},
		} {
			points := podPoints(o, r, useOf(u.of))
			if !o.Plan.Study.Measured(u.measure) || len(points) == 0 {
				continue
			}
			scale := map[string]float64{record.SizedCPU: 1e3, record.SizedMemory: 1}[u.of]
			line := stat.LinearFit(points, nil, stat.Options{})
			of := slices.Concat(line.Warnings, warnings)
			f.Findings = append(f.Findings, o.Fitted(u.slope, r.cell, line.Slope, scale, of), o.Fitted(u.rest, r.cell, line.Intercept, scale, of))
		}
	}
}

// addPodsWay adds the way of cells with different numbers of pods.
func addPodsWay(o *analysis.Observations, z *carrying.Ways, r *track) {
	cell := o.Plan.Cells[r.cells[0]]
	switch {
	case cell[study.FactorMesh] == study.MeshNone:
		return
	case study.Waypoint(cell):
		z.Waypoints = append(z.Waypoints, cell[study.FactorSidecars])
		return
	}
	w := &carrying.Way{Name: carrying.SidecarsOf(cell[study.FactorMesh]), Cell: r.cell, PlainText: plainText(cell)}
	p := carrying.Proxies{Place: record.PlaceSidecar, Count: 1, Passes: 2}
	nodes, one := nodesOf(o, r)
	if study.Ambient(cell) {
		w.Name, p.Place, p.Count = study.SidecarsAmbient, record.PlaceNode, float64(nodes)
	}
	most := 0.0
	for _, at := range podPoints(o, r, podsOnNode) {
		most = max(most, at.Y)
	}
	switch {
	case !one:
		z.Mixed = append(z.Mixed, w.Name)
		return
	case most == 0, p.Count == 0:
		return // no valid trial
	}
	z.MostPods = max(z.MostPods, most)
	w.Proxies, w.NeedsAgent = []carrying.Proxies{p}, needsAgent(o, r)
	for _, u := range carrying.Uses {
		if o.Plan.Study.Measured(u.Measure) {
			w.MeasurePods(u, len(o.Units), podPoints(o, r, useOf(u.Of)))
			w.MeasureAgent(u, podPoints(o, r, agentUse(u.Of)))
		}
	}
	z.All = append(z.All, w)
}
