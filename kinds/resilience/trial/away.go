package trial

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/meshtrial/meshtrial/drive/fault/drive"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/lab/journal/fields"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/run/site"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// controlBackTimeout is less than the time that drive allows for undoing everything.
const controlBackTimeout = 50 * time.Second

// controlPods are the pods of a mesh's control plane, or of another component that steps take away.
type controlPods struct {
	kube       kubernetes.Interface
	changes    changer // nil: they are in the run's own namespace and are removed with the trial
	namespace  string
	selector   string   // of both its pods and its Deployments
	containers []string // those that do its work
	what       string   // name in messages
}

// controlOf returns the pods of a mesh's control plane, or nil if it has none that steps affect.
func controlOf(kube kubernetes.Interface, changes changer, m mesh.Mesh) *controlPods {
	c, ok := m.(mesh.ConfigServed)
	if !ok {
		return nil
	}
	d := c.ConfigPods()
	return &controlPods{kube: kube, changes: changes, namespace: d.Namespace, selector: d.Selector, containers: d.Containers, what: "the control plane"}
}

// waypointPods returns the pods of the waypoint that istiod created in the run's namespace.
func waypointPods(kube kubernetes.Interface, namespace string, proxies mesh.Proxies) *controlPods {
	return &controlPods{kube: kube, namespace: namespace, selector: proxies.Selector, containers: proxies.Containers, what: "the waypoint"}
}

// list returns the ready pods.
func (c *controlPods) list(ctx context.Context) ([]faultPod, []string, error) {
	found, err := c.kube.CoreV1().Pods(c.namespace).List(ctx, metav1.ListOptions{LabelSelector: c.selector})
	if err != nil {
		return nil, nil, fmt.Errorf("list the pods of %s: %w", c.what, err)
	}
	var out []faultPod
	for i := range found.Items {
		if pod := &found.Items[i]; lab.PodReady(pod) {
			ref := site.PodOf(pod)
			out = append(out, faultPod{name: ref.Name, UID: ref.UID, node: ref.Node, IP: pod.Status.PodIP, containers: ref.Containers})
		}
	}
	if len(out) == 0 {
		return nil, nil, fmt.Errorf("no pod with %s in namespace %s is ready", c.selector, c.namespace)
	}
	return out, c.containers, nil
}

// deployments lists the Deployments that have pods.
func (c *controlPods) deployments(ctx context.Context) ([]appsv1.Deployment, error) {
	found, err := c.kube.AppsV1().Deployments(c.namespace).List(ctx, metav1.ListOptions{LabelSelector: c.selector})
	if err != nil {
		return nil, fmt.Errorf("list the Deployments of %s: %w", c.what, err)
	}
	var out []appsv1.Deployment
	for _, d := range found.Items {
		if d.Spec.Replicas == nil || *d.Spec.Replicas > 0 {
			out = append(out, d)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no Deployment with %s in namespace %s has pods", c.selector, c.namespace)
	}
	return out, nil
}

// away takes the component away until the end of the step: it kills the processes and prevents new
// pods. Killing processes repeatedly would not work: Kubernetes restarts them after increasing
// delays, so they would be away for too long.
func (c *controlPods) away(ctx context.Context, target, kind string, victims []victim) (drive.Execution, error) {
	all, err := c.deployments(ctx)
	if err != nil {
		return nil, err
	}
	killed := killAll(target, kind, victims)
	var gone []taken
	out := &execution{
		target: target,
		begin: func(ctx context.Context) error {
			if err := killed.Begin(ctx); err != nil {
				return err
			}
			for _, d := range all {
				one, err := c.takeAway(ctx, d)
				if one.back != nil {
					gone = append(gone, one)
				}
				if err != nil {
					return err
				}
			}
			for _, v := range victims {
				err := c.kube.CoreV1().Pods(c.namespace).Delete(ctx, v.pod.name, metav1.DeleteOptions{GracePeriodSeconds: site.Ptr(int64(0))})
				if err != nil && !apierrors.IsNotFound(err) {
					return fmt.Errorf("delete pod %s: %w", v.pod.name, err)
				}
			}
			return nil
		},
		prove: func(ctx context.Context) (string, error) {
			text, err := killed.Prove(ctx)
			if err == nil {
				err = c.await(ctx, func(d *appsv1.Deployment, alive []corev1.Pod) bool { return d.Status.Replicas == 0 && len(alive) == 0 })
			}
			return fmt.Sprintf("%s; %d Deployments of %s have no pods", text, len(all), c.what), err
		},
		end: func(ctx context.Context) error {
			var failed []error
			for _, one := range gone {
				if err := one.back(ctx); err != nil {
					failed = append(failed, fmt.Errorf("bring %s back: %w", c.what, err))
				}
			}
			if err := errors.Join(failed...); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(ctx, controlBackTimeout)
			defer cancel()
			return c.await(ctx, func(d *appsv1.Deployment, _ []corev1.Pod) bool { return d.Status.ReadyReplicas >= 1 })
		},
	}
	if c.changes != nil {
		for _, d := range all {
			out.outlasting = append(out.outlasting, c.object(d.Name))
		}
	}
	return out, nil
}

// taken is a Deployment scaled to zero, with the function to restore it; nil if there is none.
type taken struct{ back func(context.Context) error }

// whyAway is the reason in the journal for a change to the control plane.
const whyAway = "a step keeps the control plane away"

func (c *controlPods) object(deployment string) journal.Object {
	return journal.Object{APIVersion: "apps/v1", Kind: "Deployment", Namespace: c.namespace, Name: deployment}
}

func (c *controlPods) takeAway(ctx context.Context, d appsv1.Deployment) (out taken, err error) {
	if c.changes == nil {
		replicas := int32(1)
		if d.Spec.Replicas != nil {
			replicas = *d.Spec.Replicas
		}
		out.back = func(ctx context.Context) error { return c.scale(ctx, d.Name, replicas) }
		err = c.scale(ctx, d.Name, 0)
	} else {
		object := c.object(d.Name)
		var step []fields.Field
		step, err = c.changes.Change(ctx, object, whyAway, func(_, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
			return live, unstructured.SetNestedField(live.Object, int64(0), "spec", "replicas")
		})
		if len(step) > 0 {
			out.back = func(ctx context.Context) error { return c.changes.Revert(ctx, object, whyAway, step) }
		}
	}
	if err != nil {
		return out, fmt.Errorf("take %s away: %w", c.what, err)
	}
	return out, nil
}

func (c *controlPods) scale(ctx context.Context, deployment string, replicas int32) error {
	patch := fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas)
	_, err := c.kube.AppsV1().Deployments(c.namespace).Patch(ctx, deployment, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

// await waits until a condition holds for every Deployment and for the pods that have not ended.
func (c *controlPods) await(ctx context.Context, holds func(*appsv1.Deployment, []corev1.Pod) bool) error {
	ticker := time.NewTicker(5 * lookAgain)
	defer ticker.Stop()
	for {
		found, err := c.kube.AppsV1().Deployments(c.namespace).List(ctx, metav1.ListOptions{LabelSelector: c.selector})
		if err != nil {
			return fmt.Errorf("list the Deployments of %s: %w", c.what, err)
		}
		pods, err := c.kube.CoreV1().Pods(c.namespace).List(ctx, metav1.ListOptions{LabelSelector: c.selector})
		if err != nil {
			return fmt.Errorf("list the pods of %s: %w", c.what, err)
		}
		right := len(found.Items) > 0
		for i := range found.Items {
			right = right && holds(&found.Items[i], pods.Items)
		}
		if right {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s has %d pods: %w", c.what, len(pods.Items), ctx.Err())
		case <-ticker.C:
		}
	}
}
