package churn

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/meshtrial/meshtrial/drive/population"
)

// deletionCost makes the ReplicaSet controller choose a pod first when it
// has to delete one.
// See kubernetes.io/docs/concepts/workloads/controllers/replicaset, Pod deletion cost.
const deletionCost = "controller.kubernetes.io/pod-deletion-cost"

// revisionLabel is what istiod reads the canonical revision from.
const revisionLabel = "service.istio.io/canonical-revision"

func (d *Driver) isRefused(change int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.refused == nil {
		d.refused = map[int]bool{}
	}
	d.refused[change] = true
}

// victims finds the pods that a change is about: none for scaling up, all
// for a restart, else one.
func (d *Driver) victims(ctx context.Context, p *podChange) ([]*corev1.Pod, error) {
	if p.op == podScaleUp {
		return nil, nil
	}
	pods := d.watch.podsOf(p.service)
	if p.op == podReady {
		pods = slices.DeleteFunc(pods, func(pod *corev1.Pod) bool { return isReady(pod) })
	} else {
		pods = slices.DeleteFunc(pods, func(pod *corev1.Pod) bool { return !isReady(pod) })
	}
	if len(pods) == 0 {
		return nil, fmt.Errorf("no pod of %s/%s is there for it", p.service.Namespace, p.service.Name)
	}
	switch p.op {
	case podRestart:
		return pods, nil
	case podScaleDown: // the one that came last
		pod := pods[len(pods)-1]
		return pods[len(pods)-1:], d.patchPod(ctx, pod, map[string]any{"metadata": map[string]any{"annotations": map[string]any{deletionCost: "-1000"}}}, "")
	}
	return pods[:1], nil // the oldest
}

// podsOf returns the Service's pods that have an address and stay, the
// oldest first.
func (w *watcher) podsOf(s population.Service) []*corev1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []*corev1.Pod
	for _, pod := range w.pods[keyOf(s)] {
		if pod.DeletionTimestamp == nil && pod.Status.PodIP != "" {
			out = append(out, pod)
		}
	}
	slices.SortFunc(out, func(a, b *corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	return out
}

func isReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// act sends the request of a change.
func (d *Driver) act(ctx context.Context, p *podChange, victims []*corev1.Pod) error {
	ctx, cancel := context.WithTimeoutCause(ctx, requestTimeout, fmt.Errorf("no answer within %s", requestTimeout))
	defer cancel()
	service := p.service
	switch p.op {
	case podScaleUp:
		return d.scale(ctx, service, service.Endpoints+1)
	case podScaleDown:
		return d.scale(ctx, service, service.Endpoints)
	case podReplace:
		return d.kube.CoreV1().Pods(service.Namespace).Delete(ctx, victims[0].Name, metav1.DeleteOptions{})
	case podUnready, podReady:
		return d.setReady(ctx, victims[0], p.op == podReady)
	case podLabel:
		return d.patchPod(ctx, victims[0], labelPatch(revisionLabel, p.text), "")
	case podRestart: // as kubectl rollout restart does
		return d.patchDeployment(ctx, service, map[string]any{"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{
			"annotations": map[string]any{"kubectl.kubernetes.io/restartedAt": time.Now().Format(time.RFC3339Nano)}}}}})
	}
	return fmt.Errorf("no such change of pods: %s", p.op)
}

func (d *Driver) scale(ctx context.Context, s population.Service, replicas int) error {
	return d.patchDeployment(ctx, s, map[string]any{"spec": map[string]any{"replicas": replicas}})
}

func (d *Driver) patchDeployment(ctx context.Context, s population.Service, patch map[string]any) error {
	body, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	_, err = d.kube.AppsV1().Deployments(s.Namespace).Patch(ctx, s.Name, types.MergePatchType, body, metav1.PatchOptions{})
	return err
}

func (d *Driver) patchPod(ctx context.Context, pod *corev1.Pod, patch map[string]any, subresource string) error {
	body, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	kind := types.MergePatchType
	var sub []string
	if subresource != "" {
		kind, sub = types.StrategicMergePatchType, []string{subresource}
	}
	_, err = d.kube.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, kind, body, metav1.PatchOptions{}, sub...)
	return err
}

// setReady makes a pod ready or not, as a kubelet does after a probe.
func (d *Driver) setReady(ctx context.Context, pod *corev1.Pod, ready bool) error {
	status := map[bool]string{true: "True", false: "False"}[ready]
	conditions := []any{}
	for _, kind := range []string{"Ready", "ContainersReady"} {
		conditions = append(conditions, map[string]any{"type": kind, "status": status, "lastTransitionTime": time.Now().UTC().Format(time.RFC3339)})
	}
	return d.patchPod(ctx, pod, map[string]any{"status": map[string]any{"conditions": conditions}}, "status")
}

// restorePods gives the Deployments and pods that changes were about their
// old sizes, readiness and labels.
func (d *Driver) restorePods(ctx context.Context) error {
	var all []error
	done := map[string]bool{}
	for _, c := range d.plan.Changes {
		if c.pods == nil || done[keyOf(c.pods.service)] {
			continue
		}
		s := c.pods.service
		done[keyOf(s)] = true
		all = append(all, d.scale(ctx, s, s.Endpoints))
		if d.plan.Spec.On != nil {
			continue // of its pods the kubelet says whether they are ready
		}
		pods, err := d.kube.CoreV1().Pods(s.Namespace).List(ctx, metav1.ListOptions{LabelSelector: population.AppLabel + "=" + s.Name})
		if err != nil {
			all = append(all, err)
			continue
		}
		for i := range pods.Items {
			pod := &pods.Items[i]
			if pod.DeletionTimestamp != nil {
				continue
			}
			if !isReady(pod) && pod.Status.PodIP != "" {
				all = append(all, d.setReady(ctx, pod, true))
			}
			if pod.Labels[revisionLabel] != "latest" {
				all = append(all, d.patchPod(ctx, pod, labelPatch(revisionLabel, "latest"), ""))
			}
		}
	}
	return errors.Join(slices.DeleteFunc(all, apierrors.IsNotFound)...)
}
