package trial

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/site"
)

// agentsOfMesh returns the agents that connect pods to the proxies of their nodes, or redirect
// requests to sidecars.
func (t *trialRun) agentsOfMesh() mesh.Agents { return t.o.Mesh.Proxies(record.PlaceNode).Agents }

// findAgents finds the agents on the trial's nodes, which may differ from those of the previous
// trial. No request passes them: it does not wait for them, and without one the trial only lacks
// the agent's usage, and says so.
func (t *trialRun) findAgents(ctx context.Context) {
	agents, nodes := t.agentsOfMesh(), t.agentNodes()
	if len(agents.Containers) == 0 || len(nodes) == 0 {
		return
	}
	found, err := t.d.FindAgents(ctx, agents, nodes)
	if err != nil {
		t.unmeasured("%s", site.AgentsUnread(agents, err))
		return
	}
	t.agents = found
}

// agentNodes returns the trial's nodes that have an agent: those with node proxies, or all of them
// if there are none and pods rely on agents to redirect requests to their sidecars.
func (t *trialRun) agentNodes() []string {
	nodes := t.nodes()
	if len(t.d.onNodes) > 0 {
		return slices.DeleteFunc(nodes, func(node string) bool { _, there := t.d.onNodes[node]; return !there })
	}
	if slices.ContainsFunc(t.d.Pods(), func(pod site.Pod) bool { return pod.Redirected }) {
		return nodes
	}
	return nil
}

// agentServes reports whether the trial's pods rely on the agents to redirect requests to their
// sidecars.
func (t *trialRun) agentServes() bool {
	return t.server.pod.Redirected || slices.ContainsFunc(t.hands, func(h *hand) bool { return h.pod.Redirected })
}

// unpassed lists the parts that no request of the trial passes. A trial is valid without their
// usage if that is unknown.
var unpassed = []string{record.PartIdleNode, record.PartNodeAgent}

// onlyWhole drops agents, or proxies beside the way, from the trial's readings if one of them
// cannot be read, for example because it restarted within the window: its usage is lost, and the
// rest would pass for all. The trial stays valid, since requests do not pass it, unless they may
// have passed such a proxy: see [trialRun.besideEvidence].
func (t *trialRun) onlyWhole(out *record.Trial, read func(node string, target observe.Target) error) {
	for _, part := range unpassed {
		node, err := t.firstUnread(part, read)
		if err == nil {
			continue
		}
		err = fmt.Errorf("on node %s: %w", node, err)
		said := fmt.Sprintf("CPU and memory of node proxies that the trial's requests do not pass were not measured: %v", err)
		if part == record.PartNodeAgent {
			out.NodeAgents, said = 0, site.AgentsUnread(t.agentsOfMesh(), err)
		} else {
			out.IdleNodes = 0
		}
		t.seen.Unmeasured = append(t.seen.Unmeasured, said)
		for node, targets := range t.targets {
			t.targets[node] = without(targets, part)
		}
	}
}

// firstUnread returns the first node on which a part cannot be read, with the reason. It records
// all nodes on which a proxy beside the way was not the same throughout.
func (t *trialRun) firstUnread(part string, read func(node string, target observe.Target) error) (first string, why error) {
	for _, node := range slices.Sorted(maps.Keys(t.targets)) {
		for _, target := range t.targets[node] {
			if target.Name != part {
				continue
			}
			err := read(node, target)
			if err == nil {
				continue
			}
			if why == nil {
				first, why = node, err
			}
			if seldom := (*seldomError)(nil); part == record.PartIdleNode && !errors.As(err, &seldom) {
				t.noteAnew(node, err)
			}
		}
	}
	return first, why
}

// without returns the targets that do not belong to the given parts.
func without(targets []observe.Target, parts ...string) []observe.Target {
	return slices.DeleteFunc(slices.Clone(targets), func(t observe.Target) bool { return slices.Contains(parts, t.Name) })
}
