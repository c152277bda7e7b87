package findings

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// clientsOn returns the nodes of a trial's clients, for all generators.
func clientsOn(t *record.Trial) []record.NodeAt {
	out := []record.NodeAt{t.Nodes[record.PartGenerator]}
	for i := 1; i < len(t.Hands); i++ {
		out = append(out, t.Nodes[record.OfHand(record.PartGenerator, i)])
	}
	return out
}

func pathBetween(clients []record.NodeAt, server record.NodeAt) string {
	path := ""
	for _, client := range clients {
		its := "in two zones"
		switch {
		case client.Name == server.Name:
			its = "on one node"
		case client.Zone == server.Zone || client.Zone == "":
			its = "on two nodes"
		}
		if path != "" && its != path {
			return pathsMixed
		}
		path = its
	}
	return path
}

const pathsMixed = "mixed (several generators, placed differently)"

// scattered warns of pods and proxies that Kubernetes put sometimes on one node and sometimes on
// several: some figures then include the path between nodes and others do not.
func scattered(o *analysis.Observations) []note.Note {
	return append(scatteredPods(o), scatteredProxies(o)...)
}

func scatteredPods(o *analysis.Observations) []note.Note {
	trials := map[string]int{}
	for i := range o.Run.Trials {
		t := &o.Run.Trials[i]
		clients, server := clientsOn(t), t.Nodes[record.PartWorker]
		if level := t.Cell[dataplane.FactorPlacement]; level != "" && level != dataplane.PlacementScheduled || !t.Validity.Valid || clients[0].Name == "" || server.Name == "" {
			continue
		}
		trials[pathBetween(clients, server)]++
	}
	if len(trials) < 2 && trials[pathsMixed] == 0 {
		return nil
	}
	return []note.Note{noteScatteredPods.Of(words.List(inTrials(trials)))}
}

// inTrials formats numbers of trials: "on one node in 2".
func inTrials(trials map[string]int) (out []string) {
	for _, what := range slices.Sorted(maps.Keys(trials)) {
		out = append(out, fmt.Sprintf("%s in %d", what, trials[what]))
	}
	return out
}

// scatteredProxies warns of cells in which a proxy with its own pod ran sometimes next to client or
// server and sometimes elsewhere. No cell determines where it runs.
func scatteredProxies(o *analysis.Observations) (out []note.Note) {
	for _, p := range record.Proxies {
		cells := map[string]map[string]int{} // number of trials by location
		for i := range o.Run.Trials {
			t := &o.Run.Trials[i]
			if at := t.Nodes[p.Part]; t.Validity.Valid && at.Name != "" {
				key := t.Cell.Key()
				if cells[key] == nil {
					cells[key] = map[string]int{}
				}
				cells[key][besideWhom(t, at)]++
			}
		}
		trials := map[string]int{}
		for _, of := range cells {
			for where, n := range of {
				if len(of) > 1 {
					trials[where] += n
				}
			}
		}
		if len(trials) > 0 {
			out = append(out, noteScatteredProxy.Of(p.Noun, words.List(inTrials(trials))))
		}
	}
	return out
}

// besideWhom describes a node's location relative to a trial's client and server.
func besideWhom(t *record.Trial, at record.NodeAt) string {
	server := t.Nodes[record.PartWorker]
	client := slices.ContainsFunc(clientsOn(t), func(c record.NodeAt) bool { return c.Name == at.Name })
	switch {
	case client && server.Name == at.Name:
		return "on the node of client and server"
	case client:
		return "on the client's node"
	case server.Name == at.Name:
		return "on the server's node"
	case server.Zone == at.Zone || at.Zone == "":
		return "on another node"
	}
	return "in another zone than the server"
}

// allOneWay makes the requests of all trials of a cell pass the same proxies.
const allOneWay = "--set placement=same-node or placement=other-node makes all trials alike"

// mixedWays names the cells whose valid trials' requests did not all pass the same proxies. Figures
// of one proxy only cover the trials that passed it; totals over proxies cover both kinds.
func mixedWays(o *analysis.Observations) (out []note.Note) {
	for i, cell := range o.Plan.Cells {
		trials := map[string]int{}
		for _, t := range o.Valid(i) {
			var passed []string
			for _, part := range study.WayOfTrial(t).Parts() {
				p, _ := record.ProxyOf(part)
				passed = append(passed, p.Noun)
			}
			trials[cmp.Or(words.List(passed), "no proxy")]++
		}
		if len(trials) > 1 {
			out = append(out, noteMixedWays.Of(o.Plan.Label(cell), strings.Join(inTrials(trials), ", and ")))
		}
	}
	return out
}

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
	// Several generators may use several nodes; a waypoint needs none on its own.
	nodes := nodesOf(t, record.ProxyParts()...)
	idle := idleIn(o, t.Block) * 1e-3 * float64(max(len(parts), len(nodes))) * t.Window.Seconds
	return used - idle*1e6/float64(t.Load.AnsweredWithin())
}

// nodesOf returns the known nodes of a trial's parts, except some parts.
func nodesOf(t *record.Trial, except ...string) map[string]bool {
	nodes := map[string]bool{}
	for part, at := range t.Nodes {
		if at.Name != "" && !slices.Contains(except, part) {
			nodes[at.Name] = true
		}
	}
	return nodes
}
