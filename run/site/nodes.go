package site

import (
	"context"
	"fmt"
	"slices"

	"github.com/meshtrial/meshtrial/internal/kubernetes"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// OpenNodes are the nodes that the scheduler may put any pod on.
func OpenNodes(ctx context.Context, kube kubernetes.Interface) ([]corev1.Node, error) {
	all, err := kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list the nodes: %w", err)
	}
	return slices.DeleteFunc(all.Items, func(n corev1.Node) bool { return !takesPods(&n) }), nil
}

// takesPods says that the scheduler may put any pod on a node.
func takesPods(n *corev1.Node) bool {
	if n.Spec.Unschedulable || n.DeletionTimestamp != nil || n.Labels[corev1.LabelHostname] == "" {
		return false
	}
	for _, taint := range n.Spec.Taints {
		if taint.Effect != corev1.TaintEffectPreferNoSchedule {
			return false
		}
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
