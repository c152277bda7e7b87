package site

import (
	"cmp"
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh"
)

// FindAgents finds the agents of nodes, by node. It waits for none, as no request passes them:
// the error says why that of some node is not known.
func (s *Site) FindAgents(ctx context.Context, agents mesh.Agents, nodes []string) (map[string]Pod, error) {
	pods, err := s.Kube.CoreV1().Pods(agents.Namespace).List(ctx, metav1.ListOptions{LabelSelector: agents.Selector})
	if err != nil {
		return nil, fmt.Errorf("list the pods %s of namespace %s: %w", agents.Selector, agents.Namespace, err)
	}
	if len(pods.Items) == 0 {
		return nil, fmt.Errorf("namespace %s has no pod %s", agents.Namespace, agents.Selector)
	}
	out := map[string]Pod{}
	for _, node := range nodes {
		why := ": there is no such pod"
		for i := range pods.Items {
			pod := &pods.Items[i]
			switch {
			case pod.Spec.NodeName != node:
			case lab.PodReady(pod):
				out[node] = PodOf(pod)
			default:
				why = fmt.Sprintf(": %s: %s", pod.Name, lab.WhyNotReady(pod))
			}
		}
		switch _, found := out[node]; {
		case !found:
			return nil, fmt.Errorf("no pod %s is ready on node %s%s", agents.Selector, node, why)
		case !s.Observed(node):
			return nil, fmt.Errorf("node %s: %w", node, ErrUnobserved)
		}
	}
	return out, nil
}

// AgentsUnread says in words that it is not known what agents use.
func AgentsUnread(agents mesh.Agents, why error) string {
	return fmt.Sprintf("CPU and memory of %s, which no request passes, were not measured: %v", cmp.Or(agents.Noun, "the mesh's agents"), why)
}
