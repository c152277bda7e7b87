package istio

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/study"
	autoscaling "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
)

// Istio's chart may give istiod an autoscaler, which would undo the factor
// istiod_replicas. While levers are set it is held at that number.

// bounds are the part of an autoscaler that is changed.
type bounds struct {
	Min *int32 `json:"min"`
	Max int32  `json:"max"`
}

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

// holdScalers keeps istiod's autoscalers at the number of the levers, where that is
// named, and names those it changed.
func (c *ControlPlane) holdScalers(ctx context.Context, l mesh.Levers) ([]string, error) {
	if !l.Named(study.FactorIstiodReplicas) { // an earlier trial may have held them
		return nil, c.restoreScalers(ctx)
	}
	n, err := replicas(l)
	if err != nil {
		return nil, err
	}
	return c.changeScalers(ctx, func(s *autoscaling.HorizontalPodAutoscaler) (bool, error) {
		if s.Spec.MinReplicas != nil && *s.Spec.MinReplicas == n && s.Spec.MaxReplicas == n {
			return false, nil
		}
		if _, kept := s.Annotations[originalMark]; !kept {
			text, err := json.Marshal(bounds{s.Spec.MinReplicas, s.Spec.MaxReplicas})
			if err != nil {
				return false, err
			}
			setAnnotation(&s.ObjectMeta, originalMark, string(text))
		}
		s.Spec.MinReplicas, s.Spec.MaxReplicas = &n, n
		return true, nil
	})
}

// restoreScalers puts the autoscalers' bounds back.
func (c *ControlPlane) restoreScalers(ctx context.Context) error {
	_, err := c.changeScalers(ctx, func(s *autoscaling.HorizontalPodAutoscaler) (bool, error) {
		text, kept := s.Annotations[originalMark]
		if !kept {
			return false, nil
		}
		var was bounds
		if err := json.Unmarshal([]byte(text), &was); err != nil {
			return false, fmt.Errorf("annotation %s: %w", originalMark, err)
		}
		s.Spec.MinReplicas, s.Spec.MaxReplicas = was.Min, was.Max
		delete(s.Annotations, originalMark)
		return true, nil
	})
	return err
}

// changeScalers updates those that change says it changed.
func (c *ControlPlane) changeScalers(ctx context.Context, change func(*autoscaling.HorizontalPodAutoscaler) (bool, error)) ([]string, error) {
	found, err := c.scalers(ctx)
	if err != nil {
		return nil, err
	}
	var moved []string
	var all []error
	api := c.kube.AutoscalingV2().HorizontalPodAutoscalers(Namespace)
	for _, s := range found {
		changed := false
		err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			live, err := api.Get(ctx, s.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if changed, err = change(live); err != nil || !changed {
				return err
			}
			_, err = api.Update(ctx, live, metav1.UpdateOptions{FieldManager: lab.FieldManager})
			return err
		})
		if err != nil {
			all = append(all, fmt.Errorf("istio: autoscaler %s/%s: %w", Namespace, s.Name, err))
		} else if changed {
			moved = append(moved, "HorizontalPodAutoscaler "+Namespace+"/"+s.Name)
		}
	}
	return moved, errors.Join(all...)
}
