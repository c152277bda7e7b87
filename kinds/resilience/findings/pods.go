package findings

import (
	"slices"

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
		if !left(p) && (p.Service == fault.LoadService || known && one.Sidecar) {
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

// addPods adds the resources of all proxies of a mesh per additional pod, and the remainder, if a
// study varies the number of pods of its services. The cell of such a finding lacks that factor.
func addPods(o *analysis.Observations, f *record.Findings) {
	for _, r := range along(o, study.FactorReplicas) {
		cell := o.Plan.Cells[r.cells[0]]
		if len(r.cells) < 2 || cell[study.FactorMesh] == study.MeshNone {
			continue
		}
		nodes, one := r.same(o, nodeProxies)
		if !one {
			f.Warnings = append(f.Warnings, notePodUnknown.Of(o.Plan.Label(r.cell)))
			continue
		}
		var warnings []note.Note
		if nodes > 0 {
			warnings = []note.Note{notePodsShare.Of()}
		}
		for _, u := range []struct {
			of, measure, slope, rest string
			scale                    float64
		}{
			{record.SizedCPU, study.MeasureCPU, resilience.FindingPodCPU, resilience.FindingBareCPU, 1e3},
			{record.SizedMemory, study.MeasureMemory, resilience.FindingPodMemory, resilience.FindingBareMemory, 1},
		} {
			points := r.points(o, podsIn, useOf(u.of))
			if !o.Plan.Study.Measured(u.measure) || len(points) == 0 {
				continue
			}
			line := stat.LinearFit(points, nil, stat.Options{})
			of := slices.Concat(line.Warnings, warnings)
			f.Findings = append(f.Findings, o.Fitted(u.slope, r.cell, line.Slope, u.scale, of), o.Fitted(u.rest, r.cell, line.Intercept, u.scale, of))
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
	count := nodeProxies
	if !study.Ambient(cell) {
		count = func(*record.Trial) int { return 1 } // of each pod
	}
	w := r.way(o, z, count)
	most := 0.0
	for _, at := range r.points(o, podsIn, podsOnNode) {
		most = max(most, at.Y)
	}
	if w == nil || most == 0 {
		return
	}
	z.MostPods = max(z.MostPods, most)
	for _, u := range carrying.Uses {
		if o.Plan.Study.Measured(u.Measure) {
			w.MeasurePods(u, len(o.Units), r.points(o, podsIn, useOf(u.Of)))
			w.MeasureAgent(u, r.points(o, podsIn, agentUse(u.Of)))
		}
	}
	z.All = append(z.All, w)
}
