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
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// absent describes a DaemonSet's nodes that are not ready.
type absent struct {
	nodes []string
	// newest is the number of other nodes that have its newest pod.
	newest int32
}

// templateGeneration is the label of a DaemonSet's pods with the generation of the template that
// they were created from. See k8s.io/api/extensions/v1beta1, DaemonSetTemplateGenerationKey.
const templateGeneration = "pod-template-generation"

// deadNodes returns the nodes that are not ready on which a DaemonSet has a pod that is not ready
// either. The DaemonSet tolerates such nodes, and counts them for as long as they exist. Nodes
// that this user may not read count as ready.
func deadNodes(ctx context.Context, kube kubernetes.Interface, set *appsv1.DaemonSet) (absent, error) {
	if s := set.Status; s.NumberAvailable >= s.DesiredNumberScheduled && s.UpdatedNumberScheduled >= s.DesiredNumberScheduled {
		return absent{}, nil
	}
	pods, err := kube.CoreV1().Pods(set.Namespace).List(ctx, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(set.Spec.Selector)})
	if apierrors.IsForbidden(err) {
		return absent{}, nil
	}
	if err != nil {
		return absent{}, fmt.Errorf("istio: list the pods of DaemonSet %s/%s: %w", set.Namespace, set.Name, err)
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
	if len(dead) == 0 {
		return absent{}, nil
	}
	newest := map[string]bool{} // on the other nodes
	for i := range pods.Items {
		if on := pods.Items[i].Spec.NodeName; on != "" && !dead[on] && isNewest(set, &pods.Items[i]) {
			newest[on] = true
		}
	}
	return absent{nodes: slices.Sorted(maps.Keys(dead)), newest: int32(len(newest))}, nil
}

// isNewest reports whether a pod was created after its DaemonSet's template last changed, or runs
// the same as that template, as after a reverted rollout.
func isNewest(set *appsv1.DaemonSet, pod *corev1.Pod) bool {
	if pod.Labels[templateGeneration] == set.Annotations[appsv1.DeprecatedTemplateGeneration] {
		return true
	}
	return slices.EqualFunc(pod.Spec.Containers, set.Spec.Template.Spec.Containers, func(a, b corev1.Container) bool {
		return a.Image == b.Image && slices.Equal(a.Command, b.Command) && slices.Equal(a.Args, b.Args) &&
			equality.Semantic.DeepEqual(a.Env, b.Env) && equality.Semantic.DeepEqual(a.Resources, b.Resources)
	})
}

// withoutDead names the nodes that an ambient mesh lacks; empty if none.
func (f AsFound) withoutDead() []string {
	all := slices.Sorted(slices.Values(slices.Concat(f.dead[ztunnelName].nodes, f.dead[agentName].nodes)))
	if len(all) == 0 {
		return nil
	}
	return []string{"nodes that are not ready are left out of the ambient mesh and of the study: " + strings.Join(slices.Compact(all), ", ")}
}
