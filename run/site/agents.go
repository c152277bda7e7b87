package site

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh"
)

// FindAgents returns the nodes' agents, by node. It does not wait, since no request passes
// them. The error says why a node's agent is unknown.
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

// AgentsUnread explains why the agents' usage was not measured.
func AgentsUnread(agents mesh.Agents, why error) string {
	return fmt.Sprintf("CPU and memory of %s, which no request passes, were not measured: %v", cmp.Or(agents.Noun, "the mesh's agents"), why)
}

// AwaitBrought polls this many times at this interval. It counts polls rather than time
// because the agents stand still whenever the machine does.
const (
	broughtLooks = 60
	broughtEvery = 500 * time.Millisecond
)

// AwaitBrought waits until agents have enrolled each ready pod of the run's namespace with
// its node's proxy. Most are enrolled before they are ready; otherwise an agent retries
// within five seconds.
func (s *Site) AwaitBrought(ctx context.Context, agents mesh.Agents) error {
	if agents.Mark == "" {
		return nil
	}
	for look := 1; ; look++ {
		left, err := s.unbrought(ctx, agents)
		switch {
		case err == nil && len(left) == 0:
			return nil
		case look == broughtLooks && err == nil:
			return s.neverBrought(ctx, agents, left)
		case look == broughtLooks:
			return err
		}
		if late := wake.Pause(ctx, broughtEvery); late != nil {
			return fmt.Errorf("wait until %s has added pods to the proxies of their nodes: %w", agents.Noun, late)
		}
	}
}

// unbrought returns the ready pods that are not enrolled yet.
func (s *Site) unbrought(ctx context.Context, agents mesh.Agents) ([]*corev1.Pod, error) {
	pods, err := s.Kube.CoreV1().Pods(s.Namespace).List(ctx, metav1.ListOptions{LabelSelector: agents.Brought})
	if err != nil {
		return nil, fmt.Errorf("list the pods %s of namespace %s: %w", agents.Brought, s.Namespace, err)
	}
	var out []*corev1.Pod
	for i := range pods.Items {
		if pod := &pods.Items[i]; lab.PodReady(pod) && pod.Annotations[agents.Mark] != agents.Marked {
			out = append(out, pod)
		}
	}
	return out, nil
}

// neverBrought names the pods that are still not enrolled, and where to look.
func (s *Site) neverBrought(ctx context.Context, agents mesh.Agents, left []*corev1.Pod) error {
	first, others := left[0], ""
	if len(left) > 1 {
		others = fmt.Sprintf("; nor %d more", len(left)-1)
	}
	err := fmt.Errorf("%s on node %s has not added pod %s to the node's proxy after %d checks: its annotation %s is %q, not %q%s",
		agents.Noun, first.Spec.NodeName, first.Name, broughtLooks, agents.Mark, first.Annotations[agents.Mark], agents.Marked, others)
	look := fmt.Sprintf("kubectl -n %s get pods -l %s -o wide shows none that is ready on the node", agents.Namespace, agents.Selector)
	if pods, listErr := s.Kube.CoreV1().Pods(agents.Namespace).List(ctx, metav1.ListOptions{LabelSelector: agents.Selector}); listErr == nil {
		for i := range pods.Items {
			if pod := &pods.Items[i]; pod.Spec.NodeName == first.Spec.NodeName && lab.PodReady(pod) {
				look = fmt.Sprintf("kubectl -n %s logs %s", pod.Namespace, pod.Name)
			}
		}
	}
	return errs.WithHint(err, "%s; %s", look, agents.Hint)
}
