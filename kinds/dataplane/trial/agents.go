package trial

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/site"
)

// agentsOfMesh are what brings pods to the proxies of their nodes, or leads requests to sidecars.
func (t *trialRun) agentsOfMesh() mesh.Agents { return t.o.Mesh.Proxies(record.PlaceNode).Agents }

// findAgents finds those of the trial's nodes, which may be others than in the trial before.
// No request passes them: nobody waits for one, and if one is not found the trial lacks what
// they use, and says so.
func (t *trialRun) findAgents(ctx context.Context) {
	agents, nodes := t.agentsOfMesh(), t.agentNodes()
	if len(agents.Containers) == 0 || len(nodes) == 0 {
		return
	}
	found, err := t.d.FindAgents(ctx, agents, nodes)
	if err != nil {
		t.seen.Unmeasured = append(t.seen.Unmeasured, site.AgentsUnread(agents, err))
		return
	}
	t.agents = found
}

// agentNodes are the trial's nodes that have an agent: those of proxies, or all where there are
// none, and pods leave it to agents to lead requests to their sidecars.
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

// agentServes says that the trial's pods leave it to the agents to lead requests to their
// sidecars.
func (t *trialRun) agentServes() bool {
	return t.server.pod.Redirected || slices.ContainsFunc(t.hands, func(h *hand) bool { return h.pod.Redirected })
}

// onlyWholeAgents takes the agents out of what is read of the trial where one cannot be, as
// where it began anew within the window: what it had used is lost, and the rest would pass for
// all. Requests do not pass it, and count.
func (t *trialRun) onlyWholeAgents(out *record.Trial, read func(node string, agent observe.Target) error) {
	for _, node := range slices.Sorted(maps.Keys(t.targets)) {
		for _, target := range t.targets[node] {
			if target.Name != record.PartNodeAgent {
				continue
			}
			if err := read(node, target); err != nil {
				t.seen.Unmeasured = append(t.seen.Unmeasured, site.AgentsUnread(t.agentsOfMesh(), fmt.Errorf("on node %s: %w", node, err)))
				out.NodeAgents = 0
				for node, targets := range t.targets {
					t.targets[node] = withoutAgents(targets)
				}
				return
			}
		}
	}
}

// withoutAgents are targets less the agents.
func withoutAgents(targets []observe.Target) []observe.Target {
	return slices.DeleteFunc(slices.Clone(targets), func(t observe.Target) bool { return t.Name == record.PartNodeAgent })
}
