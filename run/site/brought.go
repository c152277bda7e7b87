package site

import (
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

// Pods that are ready are looked at so many times, at such intervals, until they have been
// brought to their nodes' proxies. Looks are counted and not the time: where a machine
// stands still its agents do too.
const (
	broughtLooks = 60
	broughtEvery = 500 * time.Millisecond
)

// AwaitBrought waits until agents have brought each ready pod of the run's namespace that
// they are to bring to its node's proxy. Most are before they are ready; an agent that
// hears of a pod only then tries again within five seconds.
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
			return fmt.Errorf("wait until %s has brought pods to the proxies of their nodes: %w", agents.Noun, late)
		}
	}
}

// unbrought are the ready pods that agents have not brought to proxies.
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

// neverBrought says of which pods, and where to look.
func (s *Site) neverBrought(ctx context.Context, agents mesh.Agents, left []*corev1.Pod) error {
	first, others := left[0], ""
	if len(left) > 1 {
		others = fmt.Sprintf("; nor %d more", len(left)-1)
	}
	err := fmt.Errorf("%s on node %s has not brought pod %s to the node's proxy in %d looks: its annotation %s is %q, not %q%s",
		agents.Noun, first.Spec.NodeName, first.Name, broughtLooks, agents.Mark, first.Annotations[agents.Mark], agents.Marked, others)
	look := fmt.Sprintf("kubectl -n %s get pods -l %s -o wide has none that is ready on the node", agents.Namespace, agents.Selector)
	if pods, listErr := s.Kube.CoreV1().Pods(agents.Namespace).List(ctx, metav1.ListOptions{LabelSelector: agents.Selector}); listErr == nil {
		for i := range pods.Items {
			if pod := &pods.Items[i]; pod.Spec.NodeName == first.Spec.NodeName && lab.PodReady(pod) {
				look = fmt.Sprintf("kubectl -n %s logs %s", pod.Namespace, pod.Name)
			}
		}
	}
	return errs.WithHint(err, "%s; %s", look, agents.Hint)
}
