package istio

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/lab"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// deadNodes are the nodes that are not ready, of those where a DaemonSet has a pod that is
// not: it tolerates them, and counts them among its own for as long as they are there. Those
// of which nobody may ask count as ready.
func deadNodes(ctx context.Context, kube kubernetes.Interface, set *appsv1.DaemonSet) ([]string, error) {
	if s := set.Status; s.NumberReady >= s.DesiredNumberScheduled && s.UpdatedNumberScheduled >= s.DesiredNumberScheduled {
		return nil, nil
	}
	pods, err := kube.CoreV1().Pods(Namespace).List(ctx, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(set.Spec.Selector)})
	if err != nil {
		return nil, fmt.Errorf("istio: list the pods of DaemonSet %s/%s: %w", Namespace, set.Name, err)
	}
	dead := map[string]bool{}
	for i := range pods.Items {
		name := pods.Items[i].Spec.NodeName
		if name == "" || dead[name] || lab.PodReady(&pods.Items[i]) {
			continue
		}
		node, err := kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err == nil && !slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		}) {
			dead[name] = true
		}
	}
	return slices.Sorted(maps.Keys(dead)), nil
}

// withoutDead says which nodes an ambient mesh lacks; nothing if none.
func (f AsFound) withoutDead() []string {
	all := slices.Sorted(slices.Values(slices.Concat(f.dead[ztunnelName], f.dead[agentName])))
	if len(all) == 0 {
		return nil
	}
	return []string{"nodes that are not ready have no part in the ambient mesh, nor in the study: " + strings.Join(slices.Compact(all), ", ")}
}
