package dataplane

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// FactorPlacement is the location of the server's pod relative to the client's.
const FactorPlacement = "placement"

// Levels of [FactorPlacement].
const (
	PlacementScheduled = "as-scheduled"
	PlacementSameNode  = "same-node"
	PlacementOtherNode = "other-node"
	PlacementOtherZone = "other-zone"
)

// PlacementClient is the place of clients whose servers have a place. They all run on one node, so
// that only the server moves between levels.
const PlacementClient = "placed"

var placementFactor = study.Choice(FactorPlacement, study.ScopePods, PlacementScheduled,
	"Where the server's pod runs relative to the client's: on the same node, on another node (in the client's zone if possible), in another zone, or wherever Kubernetes schedules both. Unless Kubernetes chooses, all clients run on one node.",
	PlacementScheduled, PlacementSameNode, PlacementOtherNode, PlacementOtherZone).
	Labelled(study.Says("%s", PlacementScheduled, "as scheduled", PlacementSameNode, "same node", PlacementOtherNode, "other node", PlacementOtherZone, "other zone")).
	Phrased(study.Says("%s", PlacementScheduled, "wherever pods are scheduled", PlacementSameNode, "on the same node", PlacementOtherNode, "on another node", PlacementOtherZone, "in another zone")).
	Subjected(func(level string) (string, bool) {
		return study.Says("%s", PlacementScheduled, "the scheduler's choice of nodes", PlacementSameNode, "the same node", PlacementOtherNode, "another node", PlacementOtherZone, "another zone")(level), false
	}).
	Shortened(study.Says("%s"))

// placeOf returns a cell's level of the factor placement, "" if Kubernetes chooses.
func placeOf(cell record.Cell) string {
	if level := cell[FactorPlacement]; level != PlacementScheduled {
		return level
	}
	return ""
}

// Place returns where a variant's pod runs: a level of [FactorPlacement] for servers,
// [PlacementClient] for their clients, "" if Kubernetes chooses.
func (v Variant) Place() string { return v.place }

// NodeAt describes a node of a cluster for pod placement.
type NodeAt struct {
	Name string
	Host string // its label kubernetes.io/hostname
	Zone string // REGION/ZONE; "" for none
	Kind string // machine type: nodes of one kind are alike
}

// Places maps [Variant.Place] to the node of a plan's pods.
type Places map[string]NodeAt

// placements returns the levels of [FactorPlacement] that place a plan's pods.
func placements(p *study.Plan) []string {
	var out []string
	for _, level := range placementFactor.Levels {
		if level != PlacementScheduled && slices.ContainsFunc(p.Cells, func(c record.Cell) bool { return c[FactorPlacement] == level }) {
			out = append(out, level)
		}
	}
	return out
}

// Placed reports whether a plan places pods on certain nodes.
func Placed(p *study.Plan) bool { return len(placements(p)) > 0 }

// placementNodes returns the number of nodes that a plan needs, and the number of their zones.
func placementNodes(p *study.Plan) (nodes, zones int) {
	nodes, zones = 1, 1
	for _, level := range placements(p) {
		switch level {
		case PlacementOtherNode:
			nodes++
		case PlacementOtherZone:
			nodes++
			zones++
		}
	}
	return nodes, zones
}

func spreadWords(p *study.Plan) string {
	switch nodes, zones := p.Spread(); {
	case nodes == 1:
		return "a node"
	case zones == 1:
		return "2 nodes"
	case nodes == 2:
		return "2 nodes in different zones"
	}
	return "3 nodes, of which 2 are in one zone and 1 in another"
}

// ChoosePlaces chooses nodes for a plan's pods, or returns nil for a plan that leaves them to
// Kubernetes. nodes are those that can take pods; keep holds the nodes to keep, by place. Among
// several choices it prefers nodes that are alike, and then the first by name. The error lists what
// was found, with this hint.
func ChoosePlaces(p *study.Plan, nodes []NodeAt, keep map[string]string, hint string) (Places, error) {
	asked := placements(p)
	if len(asked) == 0 {
		return nil, nil
	}
	nodes = slices.SortedFunc(slices.Values(nodes), func(a, b NodeAt) int { return strings.Compare(a.Name, b.Name) })
	var best Places
	least := 0
	for _, client := range kept(nodes, keep, PlacementClient) {
		if places, cost := placesFrom(client, nodes, asked, keep); places != nil && (best == nil || cost < least) {
			best, least = places, cost
		}
	}
	if best == nil && len(keep) > 0 {
		were := []string{"clients on " + keep[PlacementClient]}
		for _, level := range asked {
			if name, ok := keep[level]; ok {
				were = append(were, level+" on "+name)
			}
		}
		return nil, p.Study.Place(FactorPlacement).Fault(study.CodeConflict, "make those nodes schedulable again, or start another run", "%s: the run's trials so far had %s, and now there %s", FactorPlacement, strings.Join(were, ", "), nodesFound(nodes))
	}
	if best == nil {
		return nil, p.Study.Place(FactorPlacement).Fault(study.CodeConflict, hint, "%s: %s takes %s, and there %s", FactorPlacement, strings.Join(asked, ", "), spreadWords(p), nodesFound(nodes))
	}
	return best, nil
}

// PlacesKept returns the names of the nodes that a run's trials had so far, by place. A resumed run
// keeps them.
func PlacesKept(trials []record.Trial) map[string]string {
	out := map[string]string{}
	for i := range trials {
		t := &trials[i]
		if level := t.Cell[FactorPlacement]; t.Validity.Valid && level != "" && level != PlacementScheduled {
			out[PlacementClient], out[level] = t.Nodes[record.PartGenerator].Name, t.Nodes[record.PartWorker].Name
		}
	}
	return out
}

func kept(nodes []NodeAt, keep map[string]string, place string) []NodeAt {
	name, ok := keep[place]
	if !ok {
		return nodes
	}
	return slices.DeleteFunc(slices.Clone(nodes), func(n NodeAt) bool { return n.Name != name })
}

// Penalties for a choice of nodes: the wrong zone weighs more than a kind that differs from the
// client's.
const (
	costFar    = 10
	costUnlike = 1
)

// placesFrom returns nodes for servers if clients run on this one, nil if there are none.
func placesFrom(client NodeAt, nodes []NodeAt, asked []string, keep map[string]string) (out Places, cost int) {
	out = Places{PlacementClient: client}
	for _, level := range asked {
		found := []NodeAt{client}
		if level != PlacementSameNode {
			found = slices.DeleteFunc(slices.Clone(nodes), func(n NodeAt) bool {
				near := n.Zone == client.Zone
				switch {
				case level == PlacementOtherZone:
					return near || n.Zone == "" || client.Zone == ""
				case slices.Contains(asked, PlacementOtherZone): // otherwise the two would be the same
					return n.Name == client.Name || !near
				}
				return n.Name == client.Name
			})
		}
		if found = kept(found, keep, level); len(found) == 0 {
			return nil, 0
		}
		price := func(n NodeAt) int {
			sum := 0
			if n.Kind != client.Kind {
				sum += costUnlike
			}
			if level == PlacementOtherNode && n.Zone != client.Zone {
				sum += costFar
			}
			return sum
		}
		out[level] = slices.MinFunc(found, func(a, b NodeAt) int { return cmp.Compare(price(a), price(b)) })
		cost += price(out[level])
	}
	return out, cost
}

// mostFound limits the number of nodes that are named individually.
const mostFound = 8

// nodesFound lists nodes by zones: "are 2 nodes: lab-1 in lab/zone-1, lab-2 in no zone".
func nodesFound(nodes []NodeAt) string {
	if len(nodes) == 0 {
		return "is no schedulable node"
	}
	var each []string
	for i, n := range nodes {
		if i == mostFound {
			each = append(each, fmt.Sprintf("and %d more", len(nodes)-i))
			break
		}
		zone := "no zone"
		if n.Zone != "" {
			zone = "zone " + n.Zone
		}
		each = append(each, n.Name+" in "+zone)
	}
	if len(nodes) == 1 {
		return "is one schedulable node: " + each[0]
	}
	return fmt.Sprintf("are %d schedulable nodes: %s", len(nodes), strings.Join(each, ", "))
}
