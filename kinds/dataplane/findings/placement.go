package findings

import (
	"cmp"
	"fmt"
	"maps"
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
		at, ok := t.Nodes[record.OfHand(record.PartGenerator, i)]
		if !ok {
			at.Name = t.Hands[i].Node
		}
		out = append(out, at)
	}
	return out
}

// onSeveralNodes reports whether a trial's pods ran on more than one node.
func onSeveralNodes(t *record.Trial) bool {
	names := map[string]bool{}
	for _, at := range t.Nodes {
		names[at.Name] = true
	}
	for _, at := range clientsOn(t) {
		names[at.Name] = true
	}
	delete(names, "")
	return len(names) > 1
}

// Ways between the pods of a client and a server.
const (
	onOneNode = iota
	onTwoNodes
	inTwoZones
	onMixed // different ways for different generators
)

// wayOn returns the way from clients to a server.
func wayOn(clients []record.NodeAt, server record.NodeAt) int {
	way := -1
	for _, client := range clients {
		its := inTwoZones
		switch {
		case client.Name == server.Name:
			its = onOneNode
		case client.Zone == server.Zone || client.Zone == "":
			its = onTwoNodes
		}
		if way >= 0 && its != way {
			return onMixed
		}
		way = its
	}
	return way
}

// scattered warns of pods and proxies that Kubernetes put sometimes on one node and sometimes on
// several: some figures then include the way between nodes and others do not.
func scattered(o *analysis.Observations) []note.Note {
	return append(scatteredPods(o), scatteredProxies(o)...)
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
		var parts []string
		for _, where := range slices.Sorted(maps.Keys(trials)) {
			parts = append(parts, fmt.Sprintf("%s in %d", where, trials[where]))
		}
		if len(parts) > 0 {
			out = append(out, noteScatteredProxy.Of(p.Noun, words.List(parts)))
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

// scatteredPods is scattered for client and server.
func scatteredPods(o *analysis.Observations) []note.Note {
	var trials [onMixed + 1]int
	for i := range o.Run.Trials {
		t := &o.Run.Trials[i]
		clients, server := clientsOn(t), t.Nodes[record.PartWorker]
		if level := t.Cell[dataplane.FactorPlacement]; level != "" && level != dataplane.PlacementScheduled || !t.Validity.Valid || clients[0].Name == "" || server.Name == "" {
			continue
		}
		trials[wayOn(clients, server)]++
	}
	var parts []string
	for way, where := range []string{onOneNode: "on one node", onTwoNodes: "on two nodes", inTwoZones: "in two zones", onMixed: "mixed (several generators, placed differently)"} {
		if n := trials[way]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s in %d", where, n))
		}
	}
	if len(parts) < 2 && trials[onMixed] == 0 {
		return nil
	}
	return []note.Note{noteScatteredPods.Of(words.List(parts))}
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
		if len(trials) < 2 {
			continue
		}
		var parts []string
		for _, passed := range slices.Sorted(maps.Keys(trials)) {
			parts = append(parts, fmt.Sprintf("%s in %d", passed, trials[passed]))
		}
		out = append(out, noteMixedWays.Of(o.Plan.Label(cell), strings.Join(parts, ", and ")))
	}
	return out
}

// unlikeNodes names the nodes of trials if they are different machines: the figures then include
// the difference between client's and server's machine.
func unlikeNodes(o *analysis.Observations) []note.Note {
	trials, apart := 0, 0
	for i := range o.Run.Trials {
		t := &o.Run.Trials[i]
		clients, server := clientsOn(t), t.Nodes[record.PartWorker]
		if !t.Validity.Valid || clients[0].Machine == "" || server.Machine == "" {
			continue
		}
		trials++
		if slices.ContainsFunc(clients, func(at record.NodeAt) bool { return at.Machine != "" && at.Machine != server.Machine }) {
			apart++
		}
	}
	if apart == 0 {
		return o.UnlikeNodes("")
	}
	return o.UnlikeNodes(fmt.Sprintf(". Client and server ran on different machines in %d of %d trials", apart, trials))
}
