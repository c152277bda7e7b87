package findings

import (
	"fmt"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// scattered warns of a run whose pods Kubernetes put sometimes on one node and
// sometimes on several: the way between nodes is then in some figures and not in
// others.
func scattered(o *analysis.Observations) []string {
	one, two, zones := 0, 0, 0
	for i := range o.Run.Trials {
		t := &o.Run.Trials[i]
		client, server := t.Nodes[record.PartGenerator], t.Nodes[record.PartWorker]
		if level := t.Cell[study.FactorPlacement]; level != "" && level != study.PlacementScheduled || !t.Validity.Valid || client.Name == "" || server.Name == "" {
			continue
		}
		switch {
		case client.Name == server.Name:
			one++
		case client.Zone == server.Zone:
			two++
		default:
			zones++
		}
	}
	var parts []string
	for _, p := range []struct {
		n     int
		where string
	}{{one, "on one node"}, {two, "on two nodes"}, {zones, "in two zones"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%s in %d", p.where, p.n))
		}
	}
	if len(parts) < 2 {
		return nil
	}
	return []string{fmt.Sprintf("placement: Kubernetes put client and server %s trials, so that the way between nodes is in some figures and not in others; --set placement=same-node leaves it out, and the study placement measures it",
		inSequence(parts))}
}

// inSequence joins parts of a sentence.
func inSequence(parts []string) string {
	return strings.Join(parts[:len(parts)-1], ", ") + " and " + parts[len(parts)-1]
}

// unlikeNodes names the nodes that trials ran on where these are different machines:
// what differs between them is then in the figures.
func unlikeNodes(o *analysis.Observations) []string {
	type side struct{ cell, part string }
	machines, kinds := map[string]string{}, map[string]bool{} // by node; of all nodes
	first, mixed := map[side]string{}, map[string]bool{}
	trials, apart := 0, 0
	for i := range o.Run.Trials {
		t := &o.Run.Trials[i]
		client, server := t.Nodes[record.PartGenerator], t.Nodes[record.PartWorker]
		if !t.Validity.Valid || client.Machine == "" || server.Machine == "" {
			continue
		}
		trials++
		if client.Machine != server.Machine {
			apart++
		}
		cell := t.Cell.Key()
		mixed[cell] = mixed[cell] || false
		for part, at := range t.Nodes {
			machines[at.Name], kinds[at.Machine] = at.Machine, true
			if was, known := first[side{cell, part}]; known && was != at.Machine {
				mixed[cell] = true
			}
			first[side{cell, part}] = at.Machine
		}
	}
	if len(kinds) < 2 {
		return nil
	}
	pooled := 0
	for _, is := range mixed {
		if is {
			pooled++
		}
	}
	var names []string
	for node, machine := range machines {
		names = append(names, node+" is "+machine)
	}
	slices.Sort(names)
	says := "the nodes differ: " + strings.Join(names, "; ")
	if apart > 0 {
		says += fmt.Sprintf(". Client and server ran on different machines in %d of %d trials", apart, trials)
	}
	if pooled > 0 {
		says += fmt.Sprintf(". Different machines are in one interval in %d of %d cells", pooled, len(mixed))
	}
	return []string{says}
}
