package istio

import (
	"context"
	"errors"
	"fmt"

	autoscaling "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/mesh"
)

// Istio's chart may give istiod an autoscaler, which would revert the factor
// istiod_replicas. While levers are set, the autoscaler is pinned to that number.

// scalers lists the autoscalers of istiod's Deployment.
func (c *ControlPlane) scalers(ctx context.Context) ([]autoscaling.HorizontalPodAutoscaler, error) {
	found, err := c.kube.AutoscalingV2().HorizontalPodAutoscalers(Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("istio: list autoscalers in namespace %s: %w", Namespace, err)
	}
	var out []autoscaling.HorizontalPodAutoscaler
	for _, s := range found.Items {
		if s.Spec.ScaleTargetRef.Kind == "Deployment" && s.Spec.ScaleTargetRef.Name == c.name {
			out = append(out, s)
		}
	}
	return out, nil
}

// Autoscalers implements [mesh.ControlPlane].
func (c *ControlPlane) Autoscalers(ctx context.Context) ([]mesh.Autoscaler, error) {
	found, err := c.scalers(ctx)
	if err != nil {
		return nil, err
	}
	var out []mesh.Autoscaler
	for _, s := range found {
		one := mesh.Autoscaler{Name: s.Name, Min: 1, Max: s.Spec.MaxReplicas, Replicas: s.Status.DesiredReplicas}
		if s.Spec.MinReplicas != nil {
			one.Min = *s.Spec.MinReplicas
		}
		if s.Status.LastScaleTime != nil {
			one.Scaled = s.Status.LastScaleTime.Time
		}
		out = append(out, one)
	}
	return out, nil
}

// holdScalers pins istiod's autoscalers to the number in the levers, if named, and
// returns the names of those it changed.
func (c *ControlPlane) holdScalers(ctx context.Context, l mesh.Levers) ([]string, error) {
	found, err := c.scalers(ctx)
	if err != nil {
		return nil, err
	}
	var moved []string
	for _, s := range found {
		o := c.object("autoscaling/v2", "HorizontalPodAutoscaler", s.Name)
		step, err := c.changes.Change(ctx, o, why, func(original, _ *unstructured.Unstructured) (*unstructured.Unstructured, error) {
			return original, holdScaler(original, l)
		})
		if err != nil {
			return moved, fmt.Errorf("istio: %w", err)
		}
		if len(step) > 0 {
			moved = append(moved, o.String())
		}
	}
	return moved, nil
}

// holdScaler pins an autoscaler to the requested number of replicas.
func holdScaler(s *unstructured.Unstructured, l mesh.Levers) error {
	if !l.Named(controlplane.FactorIstiodReplicas) {
		return nil
	}
	n, err := replicas(l)
	if err != nil {
		return err
	}
	return errors.Join(unstructured.SetNestedField(s.Object, int64(n), "spec", "minReplicas"),
		unstructured.SetNestedField(s.Object, int64(n), "spec", "maxReplicas"))
}
