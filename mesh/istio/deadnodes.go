package istio

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/lab"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// absent is what is known of a DaemonSet's nodes that are not ready.
type absent struct {
	nodes []string
	// newest are as many of them as have its newest pod, by which its status counts them.
	newest int32
}

// templateGeneration is the label of a DaemonSet's pods that says when its template was
// theirs, by a count of its changes. See k8s.io/api/extensions/v1beta1,
// DaemonSetTemplateGenerationKey.
const templateGeneration = "pod-template-generation"

// deadNodes are the nodes that are not ready, of those where a DaemonSet has a pod that is
// not: it tolerates them, and counts them among its own for as long as they are there. Those
// of which nobody may ask count as ready.
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
	return absent{nodes: slices.Sorted(maps.Keys(dead)), newest: newestOn(dead, set, pods.Items)}, nil
}

// newestOn is how many of a DaemonSet's dead nodes have its newest pod. Where nobody can tell
// which pod that is, they have all that there are: no other node passes for having one.
func newestOn(dead map[string]bool, set *appsv1.DaemonSet, pods []corev1.Pod) (n int32) {
	counted := countedPods(pods)
	hash := newestHash(set, pods, counted)
	if hash == "" {
		return set.Status.UpdatedNumberScheduled
	}
	for node := range dead {
		if counted[node].Labels[appsv1.ControllerRevisionHashLabelKey] == hash {
			n++
		}
	}
	return n
}

// newestHash is the hash of a DaemonSet's newest pods, which its status does not name: that of
// pods made since the template last changed. After a rollout that was undone there may be none
// of these. Then it is one that as many nodes have as the status counts, and that was not the
// template's before the change; "" where that leaves none, or several.
func newestHash(set *appsv1.DaemonSet, pods []corev1.Pod, counted map[string]*corev1.Pod) string {
	changes, err := strconv.ParseInt(set.Annotations[appsv1.DeprecatedTemplateGeneration], 10, 64)
	undone := map[string]bool{}
	for i := range pods {
		hash := pods[i].Labels[appsv1.ControllerRevisionHashLabelKey]
		switch made, failed := strconv.ParseInt(pods[i].Labels[templateGeneration], 10, 64); {
		case err != nil || failed != nil:
		case made == changes:
			return hash
		case made == changes-1:
			undone[hash] = true
		}
	}
	nodes := map[string]int32{} // by hash
	for _, pod := range counted {
		nodes[pod.Labels[appsv1.ControllerRevisionHashLabelKey]]++
	}
	var left []string
	for hash, n := range nodes {
		if n == set.Status.UpdatedNumberScheduled && !undone[hash] {
			left = append(left, hash)
		}
	}
	if len(left) != 1 {
		return ""
	}
	return left[0]
}

// countedPods are the pods by which the status of their DaemonSet counts its nodes, the oldest
// on each. See pkg/controller/daemon, updateDaemonSetStatus.
func countedPods(pods []corev1.Pod) map[string]*corev1.Pod {
	out := map[string]*corev1.Pod{}
	for i := range pods {
		pod := &pods[i]
		if known := out[pod.Spec.NodeName]; pod.Spec.NodeName != "" && (known == nil || pod.CreationTimestamp.Before(&known.CreationTimestamp)) {
			out[pod.Spec.NodeName] = pod
		}
	}
	return out
}

// withoutDead says which nodes an ambient mesh lacks; nothing if none.
func (f AsFound) withoutDead() []string {
	all := slices.Sorted(slices.Values(slices.Concat(f.dead[ztunnelName].nodes, f.dead[agentName].nodes)))
	if len(all) == 0 {
		return nil
	}
	return []string{"nodes that are not ready have no part in the ambient mesh, nor in the study: " + strings.Join(slices.Compact(all), ", ")}
}
