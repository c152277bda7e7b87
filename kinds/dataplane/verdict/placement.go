package verdict

import (
	"fmt"

	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/verdict"
)

// checkPlacement compares the pods' nodes with the cell's placement.
func checkPlacement(s *verdict.Sheet, t record.Trial) {
	client, server := t.Nodes[record.PartGenerator], t.Nodes[record.PartWorker]
	ok := false
	switch t.Cell[dataplane.FactorPlacement] {
	case dataplane.PlacementSameNode:
		ok = server.Name == client.Name
	case dataplane.PlacementOtherNode:
		ok = server.Name != client.Name
	case dataplane.PlacementOtherZone:
		ok = server.Zone != client.Zone && server.Zone != "" && client.Zone != ""
	default:
		return
	}
	others := ""
	for _, h := range t.Hands {
		if h.Node != client.Name {
			ok, others = false, fmt.Sprintf(", and the generator of pod %s on node %s", h.Pod, h.Node)
		}
	}
	s.Check(dataplane.FactorPlacement, ok && client.Name != "" && server.Name != "", "the client ran on %s, the server on %s%s", nodeWords(client), nodeWords(server), others)
}

// nodeWords names a node and its zone.
func nodeWords(n record.NodeAt) string {
	switch {
	case n.Name == "":
		return "an unknown node"
	case n.Zone == "":
		return fmt.Sprintf("node %s in no zone", n.Name)
	}
	return fmt.Sprintf("node %s in zone %s", n.Name, n.Zone)
}
