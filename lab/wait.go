package lab

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/internal/podstate"
	"github.com/meshtrial/meshtrial/internal/podwait"
)

// WaitDeployment waits until all replicas of a Deployment's newest version are available and
// no older ones exist. It ends early if the wait cannot succeed: see internal/podwait.
func WaitDeployment(ctx context.Context, client kubernetes.Interface, namespace, name string) error {
	maker := podstate.Object{Kind: "Deployment", Namespace: namespace, Name: name}
	return podwait.Until(ctx, client, namespace, maker.String(), func(ctx context.Context) (podwait.Seen, error) {
		deployment, err := client.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return unseen(err)
		}
		seen := podwait.Seen{Maker: maker}
		seen.Done, seen.State = deploymentDone(deployment)
		if seen.Done {
			return seen, nil
		}
		for _, c := range deployment.Status.Conditions {
			if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
				seen.Refusal = c.Message
			}
		}
		seen.Pods, seen.Missing = NewestPods(ctx, client, deployment)
		return seen, nil
	})
}

// unseen returns the result of a failed read: nothing seen if the object may not exist yet.
func unseen(err error) (podwait.Seen, error) {
	if apierrors.IsNotFound(err) {
		return podwait.Seen{State: err.Error()}, nil
	}
	return podwait.Seen{}, err
}

// podsOf returns the pods of a selector, or none if the user may not read them.
func podsOf(ctx context.Context, client kubernetes.Interface, namespace string, selector *metav1.LabelSelector) []corev1.Pod {
	if selector == nil {
		return nil
	}
	found, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(selector), ResourceVersion: "0"})
	if err != nil {
		return nil
	}
	return found.Items
}

func wanted(d *appsv1.Deployment) int {
	if d.Spec.Replicas != nil {
		return int(*d.Spec.Replicas)
	}
	return 1
}

// NewestPods returns the pods of a Deployment's newest version, and the number of missing
// ones. During a rollout pods of older versions exist as well.
func NewestPods(ctx context.Context, client kubernetes.Interface, d *appsv1.Deployment) (pods []corev1.Pod, missing int) {
	if d.Status.UpdatedReplicas == 0 || d.Status.ObservedGeneration < d.Generation {
		return nil, wanted(d)
	}
	pods = podsOf(ctx, client, d.Namespace, d.Spec.Selector)
	if len(pods) > 0 {
		version := func(p *corev1.Pod) string { return p.Labels[appsv1.DefaultDeploymentUniqueLabelKey] }
		last := slices.MaxFunc(pods, func(a, b corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
		pods = slices.DeleteFunc(pods, func(p corev1.Pod) bool { return version(&p) != version(&last) })
	}
	return pods, wanted(d) - len(pods)
}

func deploymentDone(d *appsv1.Deployment) (bool, string) {
	want := int32(wanted(d))
	s := d.Status
	state := fmt.Sprintf("%d of %d replicas available, %d updated", s.AvailableReplicas, want, s.UpdatedReplicas)
	done := s.ObservedGeneration >= d.Generation && s.UpdatedReplicas == want && s.AvailableReplicas >= want && s.Replicas == want
	return done, state
}

// WaitDaemonSet waits until the newest version of a DaemonSet is ready on each of its nodes.
// It requires at least one node.
func WaitDaemonSet(ctx context.Context, client kubernetes.Interface, namespace, name string) error {
	return podwait.Until(ctx, client, namespace, fmt.Sprintf("DaemonSet %s/%s", namespace, name), func(ctx context.Context) (podwait.Seen, error) {
		set, err := client.AppsV1().DaemonSets(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return unseen(err)
		}
		seen := podwait.Seen{}
		if seen.Done, seen.State = daemonSetDone(set); !seen.Done {
			seen.Pods = podsOf(ctx, client, namespace, set.Spec.Selector)
			seen.Missing = int(set.Status.DesiredNumberScheduled) - len(seen.Pods)
		}
		return seen, nil
	})
}

func daemonSetDone(set *appsv1.DaemonSet) (bool, string) {
	s := set.Status
	want := s.DesiredNumberScheduled
	state := fmt.Sprintf("ready on %d of %d nodes, %d updated", s.NumberReady, want, s.UpdatedNumberScheduled)
	return s.ObservedGeneration >= set.Generation && want > 0 && s.UpdatedNumberScheduled == want && s.NumberReady == want, state
}

// WaitPods waits until at least count selected pods of a namespace exist and all are ready.
// It ignores pods that are [PodLost], and fails as soon as a pod fails.
func WaitPods(ctx context.Context, client kubernetes.Interface, namespace, selector string, count int) error {
	what := fmt.Sprintf("%d ready pods %s in namespace %s", count, selector, namespace)
	if count == 1 {
		what = fmt.Sprintf("a ready pod %s in namespace %s", selector, namespace)
	}
	return podwait.Until(ctx, client, namespace, what, func(ctx context.Context) (podwait.Seen, error) {
		pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector, ResourceVersion: "0"})
		if err != nil {
			return unseen(err)
		}
		seen := podwait.Seen{Pods: slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return PodLost(&p) })}
		seen.Missing = count - len(seen.Pods)
		ready := 0
		for i := range seen.Pods {
			pod := &seen.Pods[i]
			switch {
			case PodReady(pod):
				ready++
			case pod.Status.Phase == corev1.PodFailed && pod.DeletionTimestamp == nil:
				return seen, fmt.Errorf("pod %s failed: %s %s", pod.Name, pod.Status.Reason, pod.Status.Message)
			}
		}
		seen.State = fmt.Sprintf("%d of %d ready, %d exist", ready, count, len(seen.Pods))
		seen.Done = ready >= count && ready == len(seen.Pods)
		return seen, nil
	})
}

// PodSilent reports since when a pod's node has been silent. The cluster then sets the pod's
// condition Ready to false within a minute, while the node's last report still shows all
// containers ready. (Unready containers or readiness gates do not mean a dead node.)
func PodSilent(pod *corev1.Pod) (since time.Time, silent bool) {
	all := pod.Status.ContainerStatuses
	if pod.Status.Phase != corev1.PodRunning || len(pod.Spec.ReadinessGates) > 0 || len(all) == 0 || slices.ContainsFunc(all, func(s corev1.ContainerStatus) bool { return !s.Ready }) {
		return since, false
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionFalse {
			return c.LastTransitionTime.Time, true
		}
	}
	return since, false
}

// PodLost reports whether a pod was deleted on a silent node. Such a pod stays until the
// node returns, and another pod replaces it.
func PodLost(pod *corev1.Pod) bool {
	_, silent := PodSilent(pod)
	return silent && pod.DeletionTimestamp != nil
}

// deadNode is how long a movable pod stays on a silent node. It leaves enough of the time
// that pods have to become ready for the replacement.
const deadNode = 30 * time.Second

// LeaveDeadNodes lets pods be replaced soon after their node has died.
func LeaveDeadNodes(pod *corev1.PodTemplateSpec) {
	seconds := int64(deadNode / time.Second)
	for _, dead := range []string{corev1.TaintNodeUnreachable, corev1.TaintNodeNotReady} {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Key: dead, Operator: corev1.TolerationOpExists,
			Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds})
	}
}

// PodReady reports whether a pod is ready and not being deleted.
func PodReady(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp != nil {
		return false
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// WhyNotReady describes briefly what a pod is waiting for.
func WhyNotReady(pod *corev1.Pod) string {
	statuses := append(append([]corev1.ContainerStatus{}, pod.Status.InitContainerStatuses...), pod.Status.ContainerStatuses...)
	for _, status := range statuses {
		if waiting := status.State.Waiting; waiting != nil && waiting.Reason != "PodInitializing" {
			return fmt.Sprintf("container %s is waiting: %s %s", status.Name, waiting.Reason, waiting.Message)
		}
		if ended := status.State.Terminated; ended != nil && ended.ExitCode != 0 {
			return fmt.Sprintf("container %s ended with code %d: %s", status.Name, ended.ExitCode, ended.Reason)
		}
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Status == corev1.ConditionFalse && condition.Message != "" {
			return condition.Message
		}
	}
	return string(pod.Status.Phase)
}
