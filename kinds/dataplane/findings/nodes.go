package findings

import (
	"math"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// A node proxy runs whether requests pass it or not. Its use without requests is measured in the
// windows of the cells whose requests pass none, which alternate in the same blocks with the other
// cells, so that machine drift cancels. Those windows are not silent: both kinds include other
// pods' requests, and messages from the control plane.

// idleNode returns the use of one node proxy in the window of a trial whose requests pass none, in
// thousandths of a CPU; NaN for other trials.
func idleNode(_ *analysis.Observations, t *record.Trial) float64 {
	cpu, ok := t.CPU[record.PartIdleNode]
	if !ok || t.IdleNodes == 0 || t.Window.Seconds <= 0 || len(study.WayOfTrial(t).At(record.PlaceNode)) > 0 {
		return math.NaN()
	}
	return cpu.TotalS() * 1e3 / t.Window.Seconds / float64(t.IdleNodes)
}

// idleIn returns the mean of idleNode over the trials of a block; NaN if it has none.
func idleIn(o *analysis.Observations, block int) float64 {
	sum, n := 0.0, 0
	for cell := range o.Plan.Cells {
		for _, t := range o.ValidIn(cell, block) {
			if v := idleNode(o, t); !math.IsNaN(v) {
				sum, n = sum+v, n+1
			}
		}
	}
	return sum / float64(n)
}

// nodesNet returns the use per request of the node proxies that a trial's requests pass, in
// microseconds, minus the idle use of as many proxies.
func nodesNet(o *analysis.Observations, t *record.Trial) float64 {
	parts := study.WayOfTrial(t).At(record.PlaceNode)
	if len(parts) == 0 || t.Load.AnsweredWithin() <= 0 {
		return math.NaN()
	}
	used := 0.0
	for _, part := range parts {
		used += analysis.CPUPerRequest(t, part, record.CPU.TotalS)
	}
	nodes := map[string]bool{} // several generators may use several nodes; a waypoint needs none on its own
	for part, at := range t.Nodes {
		if _, proxy := record.ProxyOf(part); !proxy {
			nodes[at.Name] = true
		}
	}
	idle := idleIn(o, t.Block) * 1e-3 * float64(max(len(parts), len(nodes))) * t.Window.Seconds
	return used - idle*1e6/float64(t.Load.AnsweredWithin())
}
