package trial

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/site"
)

// findAgents finds what brings the trial's pods to the proxies of their nodes, or leads
// requests to their sidecars where these leave it to that, one on each of their nodes. No
// request depends on it: the trial lacks its use where one is not found, which is told.
func (t *scenarioTrial) findAgents(ctx context.Context) {
	agents := t.scene.mesh.Proxies(record.PlaceNode).Agents
	served := t.census.nodesOf(agents.Serve)
	t.out.AgentForSidecars = len(served) > 0
	nodes := slices.Concat(t.shared.nodes, served)
	slices.Sort(nodes)
	var found []site.Pod
	for _, node := range slices.Compact(nodes) {
		pod, err := t.FindProxy(ctx, mesh.Proxies{Namespace: agents.Namespace, Selector: agents.Selector}, node)
		if err != nil {
			t.say("what the mesh's agent on node %s uses is not measured: %v", node, err)
			return
		}
		found = append(found, pod)
	}
	t.agents, t.out.NodeAgents = found, len(found)
}

// nodesOf are the nodes of pods of a kind that live.
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
