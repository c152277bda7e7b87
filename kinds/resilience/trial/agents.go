package trial

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/site"
)

// findAgents finds the agents, one per node, that connect the trial's pods to the proxies of their
// nodes or redirect requests to their sidecars. No request depends on them: without an agent the
// trial only lacks the agent's usage, and says so.
func (t *scenarioTrial) findAgents(ctx context.Context) {
	agents := t.scene.mesh.Proxies(record.PlaceNode).Agents
	served := t.census.nodesOf(agents.Serve)
	t.out.AgentForSidecars = len(served) > 0
	nodes := slices.Concat(t.shared.nodes, served)
	slices.Sort(nodes)
	if nodes = slices.Compact(nodes); len(nodes) == 0 {
		return
	}
	found, err := t.FindAgents(ctx, agents, nodes)
	if err != nil {
		t.unmeasured("%s", site.AgentsUnread(agents, err))
		return
	}
	for _, node := range nodes {
		t.agents = append(t.agents, found[node])
	}
	t.out.NodeAgents = len(t.agents)
}

// wholeAgents removes the agents' usage from the record if one of them was replaced before the end,
// since its successor was not read.
func (t *scenarioTrial) wholeAgents(out *record.Scenario) {
	for _, agent := range t.agents {
		if err := t.looks.whole(agent.UID); err != nil {
			t.out.NodeAgents = 0
			t.forget(out, record.PartNodeAgent, site.AgentsUnread(t.scene.mesh.Proxies(record.PlaceNode).Agents, fmt.Errorf("on node %s: %w", agent.Node, err)))
			return
		}
	}
}

// whole returns why a target was not sampled from start to end, or nil.
func (l *looks) whole(target string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	last, seen := l.last[target]
	if !seen || l.away[target] {
		return errors.New("it was gone at the last reading")
	}
	_, err := last.at.Since(l.first[target].at)
	return err
}

// nodesOf returns the nodes of the living pods of a kind.
func (c *census) nodesOf(kind func(*corev1.Pod) bool) (out []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.pods {
		if !r.left && r.Node != "" && kind(r.volatile) {
			out = append(out, r.Node)
		}
	}
	return out
}
