package trial

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/meshtrial/meshtrial/drive/fault/node"
	"github.com/meshtrial/meshtrial/internal/jsonhttp"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/lab/journal/fields"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/run/site"
	appsv1 "k8s.io/api/apps/v1"
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
func (c *controlPods) list(ctx context.Context) ([]site.Pod, error) {
	found, err := c.kube.CoreV1().Pods(c.namespace).List(ctx, metav1.ListOptions{LabelSelector: c.selector})
	if err != nil {
		return nil, fmt.Errorf("list the pods of %s: %w", c.what, err)
	}
	var out []site.Pod
	for i := range found.Items {
		if pod := &found.Items[i]; lab.PodReady(pod) {
			out = append(out, site.PodOf(pod))
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no pod with %s in namespace %s is ready", c.selector, c.namespace)
	}
	return out, nil
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

// away takes the component away until the end of the step: besides killing the processes it prevents
// new pods. Killing processes repeatedly would not work: Kubernetes restarts them after increasing
// delays, so they would be away for too long.
func (c *controlPods) away(ctx context.Context, kind string, killed *execution, victims []victim) (*execution, error) {
	all, err := c.deployments(ctx)
	if err != nil {
		return nil, err
	}
	var back []func(context.Context) error // one for each Deployment that is scaled to zero
	out := &execution{
		target: killed.target,
		begin: func(ctx context.Context) error {
			if err := killed.begin(ctx); err != nil {
				return err
			}
			for _, d := range all {
				one, err := c.takeAway(ctx, d)
				if one != nil {
					back = append(back, one)
				}
				if err != nil {
					return err
				}
			}
			for _, v := range victims {
				err := c.kube.CoreV1().Pods(c.namespace).Delete(ctx, v.pod.Name, metav1.DeleteOptions{GracePeriodSeconds: site.Ptr(int64(0))})
				if err != nil && !apierrors.IsNotFound(err) {
					return fmt.Errorf("delete pod %s: %w", v.pod.Name, err)
				}
			}
			return nil
		},
		prove: func(ctx context.Context) (string, error) {
			text, err := killed.prove(ctx)
			if err == nil {
				err = c.untilScaled(ctx, all)
			}
			if err == nil {
				err = untilNoPods(ctx, c.kube, c.namespace, c.selector)
			}
			if err == nil {
				err = untilNoneRuns(ctx, kind, victims)
			}
			return fmt.Sprintf("%s; no Deployment of %s has pods", text, c.what), err
		},
		end: func(ctx context.Context) error {
			var failed []error
			for _, one := range back {
				failed = append(failed, one(ctx))
			}
			if err := errors.Join(failed...); err != nil {
				return fmt.Errorf("bring %s back: %w", c.what, err)
			}
			ctx, cancel := context.WithTimeout(ctx, controlBackTimeout)
			defer cancel()
			for _, d := range all {
				if err := servesAgain(ctx, c.kube, c.object(d.Name)); err != nil {
					return err
				}
			}
			return nil
		},
	}
	if c.changes != nil {
		for _, d := range all {
			out.outlasting = append(out.outlasting, c.object(d.Name))
		}
	}
	return out, nil
}

// whyAway is the reason in the journal for a change to the control plane.
const whyAway = "a step keeps the control plane away"

func (c *controlPods) object(deployment string) journal.Object {
	return journal.Object{APIVersion: "apps/v1", Kind: "Deployment", Namespace: c.namespace, Name: deployment}
}

// takeAway scales a Deployment to zero, and returns a function that reverts what was changed; nil if
// nothing was.
func (c *controlPods) takeAway(ctx context.Context, d appsv1.Deployment) (back func(context.Context) error, err error) {
	if c.changes == nil {
		replicas := int32(1)
		if d.Spec.Replicas != nil {
			replicas = *d.Spec.Replicas
		}
		back = func(ctx context.Context) error { return c.scale(ctx, d.Name, replicas) }
		err = c.scale(ctx, d.Name, 0)
	} else {
		object := c.object(d.Name)
		var step []fields.Field
		step, err = c.changes.Change(ctx, object, whyAway, func(_, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
			return live, unstructured.SetNestedField(live.Object, int64(0), "spec", "replicas")
		})
		if len(step) > 0 {
			back = func(ctx context.Context) error { return c.changes.Revert(ctx, object, whyAway, step) }
		}
	}
	if err != nil {
		return back, fmt.Errorf("take %s away: %w", c.what, err)
	}
	return back, nil
}

func (c *controlPods) scale(ctx context.Context, deployment string, replicas int32) error {
	patch := fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas)
	_, err := c.kube.AppsV1().Deployments(c.namespace).Patch(ctx, deployment, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

// untilScaled waits until the status of Deployments that were scaled to zero says so: before, a
// deleted pod may still be replaced.
func (c *controlPods) untilScaled(ctx context.Context, all []appsv1.Deployment) error {
	for _, d := range all {
		for {
			now, err := c.kube.AppsV1().Deployments(c.namespace).Get(ctx, d.Name, metav1.GetOptions{})
			if err == nil && now.Status.ObservedGeneration >= now.Generation && now.Status.Replicas == 0 {
				break
			}
			if err != nil && !kubernetes.Transient(err) {
				return fmt.Errorf("read Deployment %s of %s: %w", d.Name, c.what, err)
			}
			if ended := wake.Pause(ctx, lookEvery); ended != nil {
				return errors.Join(fmt.Errorf("Deployment %s of %s still has pods: %w", d.Name, c.what, ended), err)
			}
		}
	}
	return nil
}

// untilNoneRuns waits until no pod has a process of a kind: a container may have been restarted before
// its node learned that the pod is deleted, and then ends only gracefully.
func untilNoneRuns(ctx context.Context, kind string, all []victim) error {
	return each(all, func(v *victim) error {
		for {
			found, err := v.client.Processes(ctx, node.Container{PodUID: v.pod.UID})
			runs := slices.ContainsFunc(found, func(p node.Process) bool { return p.Kind == kind && p.State != "Z" })
			switch {
			case jsonhttp.Answered(err, http.StatusNotFound):
				return nil
			case err != nil:
				return err
			case !runs:
				return nil
			}
			if err := wake.Pause(ctx, lookEvery); err != nil {
				return fmt.Errorf("its node still runs %s: %w", kind, err)
			}
		}
	})
}

// untilNoPods waits until no pod with a selector is left, terminating ones included.
func untilNoPods(ctx context.Context, kube kubernetes.Interface, namespace, selector string) error {
	for {
		left, err := kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil && !kubernetes.Transient(err) || err == nil && len(left.Items) == 0 {
			return err
		}
		if ended := wake.Pause(ctx, lookEvery); ended != nil {
			return errors.Join(fmt.Errorf("pods %s did not terminate: %w", selector, ended), err)
		}
	}
}
