package population

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// heal undoes what interrupted changes may have left: Deployments of another
// size, pods that were made unready.
func (w *World) heal(ctx context.Context, want []*unstructured.Unstructured) error {
	ours := metav1.ListOptions{LabelSelector: Label + "=" + LabelValue, ResourceVersion: "0"}
	deployments, err := w.kube.AppsV1().Deployments("").List(ctx, ours)
	if err != nil {
		return fmt.Errorf("list deployments: %w", err)
	}
	replicas := make(map[string]int32, len(deployments.Items))
	for i := range deployments.Items {
		d := &deployments.Items[i]
		if d.Spec.Replicas != nil {
			replicas["Deployment/"+d.Namespace+"/"+d.Name] = *d.Spec.Replicas
		}
	}
	err = each(ctx, want, func(ctx context.Context, o *unstructured.Unstructured) error {
		now, there := replicas[key(o)]
		if wanted, _, _ := unstructured.NestedInt64(o.Object, "spec", "replicas"); !there || int64(now) == wanted {
			return nil
		}
		return w.update(ctx, o)
	})
	if err != nil {
		return err
	}
	pods, err := w.kube.CoreV1().Pods("").List(ctx, ours)
	if err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil || running(pod) {
			continue
		}
		if err := w.kube.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete pod %s/%s, which is not ready: %w", pod.Namespace, pod.Name, err)
		}
	}
	return nil
}
