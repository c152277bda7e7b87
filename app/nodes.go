package app

import (
	"fmt"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/study"
)

// startedNodes returns the number of nodes and the zones of a lab that is started for a plan:
// those of the options, or else what the plan needs.
func (o *RunOptions) startedNodes(plan *study.Plan) (nodes int, zones []string) {
	nodes, zones = o.Nodes, o.Zones
	needed, apart := 1, 1
	if plan != nil {
		needed, apart = plan.Spread()
	}
	if nodes == 0 {
		nodes = max(needed, len(zones))
	}
	if len(zones) == 0 && needed > apart && apart > 1 { // two nodes share a zone
		for i := range nodes - 1 {
			zones = append(zones, fmt.Sprintf("zone-%d", i+1))
		}
	}
	return nodes, zones
}

// localNodes returns the nodes of the lab on this machine that a run of a plan would use: the
// running lab, or the one that the run would start.
func (o *RunOptions) localNodes(plan *study.Plan) (nodes []local.Node, running bool, err error) {
	l, err := local.Open("")
	if err != nil {
		nodes, err = local.PlannedNodes(o.startedNodes(plan))
		return nodes, false, err
	}
	nodes = l.Nodes()
	if o.Nodes == 0 && len(o.Zones) == 0 {
		return nodes, true, nil
	}
	asked := o.Nodes
	if asked == 0 {
		asked = max(len(nodes), len(o.Zones))
	}
	wanted, err := local.PlannedNodes(asked, o.Zones)
	if err != nil {
		return nil, true, err
	}
	same := slices.EqualFunc(nodes, wanted, func(a, b local.Node) bool {
		return a.Name == b.Name && (len(o.Zones) == 0 || a.Region == b.Region && a.Zone == b.Zone)
	})
	if !same {
		return nil, true, errs.WithHint(errs.Usage("the nodes of the running lab do not match --nodes and --zones: %s", nodeWords(nodes)),
			"omit the flags; or `meshtrial lab down`, and the run starts a lab with these nodes")
	}
	return nodes, true, nil
}

// nodeWords lists nodes with their zones.
func nodeWords(nodes []local.Node) string {
	var words []string
	for _, n := range nodes {
		if n.Zone != "" {
			n.Name += " (" + n.Region + "/" + n.Zone + ")"
		}
		words = append(words, n.Name)
	}
	return strings.Join(words, ", ")
}

// fitsLocal returns an error if a plan does not fit the lab on this machine that a run would use.
func (o *RunOptions) fitsLocal(plan *study.Plan) error {
	nodes, running, err := o.localNodes(plan)
	if err != nil {
		return err
	}
	needed, apart := plan.Spread()
	hint := fmt.Sprintf("--nodes %d, or omit the flags: a lab that a run starts has the nodes that its study needs", needed)
	if running {
		hint = fmt.Sprintf("`meshtrial lab down`, and the run starts a lab with enough nodes (--nodes %d)", needed)
	}
	if needed > apart && apart > 1 {
		hint += "; in the zones a,b,a: --zones a,b"
	}
	var at []dataplane.NodeAt
	for _, n := range nodes {
		one := dataplane.NodeAt{Name: n.Name}
		if n.Zone != "" {
			one.Zone = n.Region + "/" + n.Zone
		}
		at = append(at, one)
	}
	if _, err := dataplane.ChoosePlaces(plan, at, nil, hint); err != nil {
		return err
	}
	return fitsNodes(plan, len(nodes))
}
