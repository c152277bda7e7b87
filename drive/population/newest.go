package population

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Newest returns whom one more proxy of a namespace may claim to be: of the
// simulated pods that run there the one that came last, if possible one that
// no proxy claims to be yet.
func (w *World) Newest(ctx context.Context, namespace string, claimed []Identity) (Identity, error) {
	pods, err := w.kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: Label + "=" + LabelValue})
	if err != nil {
		return Identity{}, fmt.Errorf("list pods: %w", err)
	}
	id, ok := newest(pods.Items, claimed)
	if !ok {
		return Identity{}, fmt.Errorf("no simulated pod runs in namespace %s", namespace)
	}
	return id, nil
}

// newest picks the identity; false if no pod runs.
func newest(pods []corev1.Pod, claimed []Identity) (Identity, bool) {
	taken := make(map[string]bool, len(claimed))
	for _, id := range claimed {
		taken[id.Namespace+"/"+id.Name] = true
	}
	var best *corev1.Pod
	better := func(a, b *corev1.Pod) bool {
		if x, y := taken[a.Namespace+"/"+a.Name], taken[b.Namespace+"/"+b.Name]; x != y {
			return y
		}
		if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
			return c > 0
		}
		return strings.Compare(a.Name, b.Name) < 0
	}
	for i := range pods {
		if pod := &pods[i]; running(pod) && (best == nil || better(pod, best)) {
			best = pod
		}
	}
	if best == nil {
		return Identity{}, false
	}
	return identityOf(best), true
}
