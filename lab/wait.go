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
	"github.com/meshtrial/meshtrial/internal/wake"
)

const pollEvery = 100 * time.Millisecond

// poll calls check until it is done or fails, or the context ends; then the
// error carries what check last said.
func poll(ctx context.Context, what string, check func(context.Context) (done bool, state string, err error)) error {
	state := "nothing seen yet"
	for {
		began := time.Now()
		done, now, err := check(ctx)
		if now != "" {
			state = now
		}
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("%s: %w (last seen: %s)", what, context.Cause(ctx), state)
		case err != nil:
			return fmt.Errorf("%s: %w", what, err)
		case done:
			return nil
		}
		_ = wake.Pause(ctx, PollPause(time.Since(began)))
	}
}

// longestPause is how long to wait at the most before something is asked again.
const longestPause = 5 * time.Second

// PollPause is how long to wait before something is asked again whose answer took so long:
// lists of thousands of pods keep an API server, and whoever reads them, busy a fifth of the
// time at the most. One that stood still is asked again soon.
func PollPause(took time.Duration) time.Duration {
	return max(pollEvery-took, min(4*took, longestPause))
}

// WaitDeployment waits until a Deployment's newest version has all its
// replicas updated and available, and no more than those.
func WaitDeployment(ctx context.Context, client kubernetes.Interface, namespace, name string) error {
	return poll(ctx, fmt.Sprintf("wait for Deployment %s/%s", namespace, name), func(ctx context.Context) (bool, string, error) {
		deployment, err := client.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			if passing(err) {
				return false, err.Error(), nil
			}
			return false, "", err
		}
		done, state := deploymentDone(deployment)
		return done, state, nil
	})
}

func deploymentDone(d *appsv1.Deployment) (bool, string) {
	want := int32(1)
	if d.Spec.Replicas != nil {
		want = *d.Spec.Replicas
	}
	s := d.Status
	state := fmt.Sprintf("%d of %d replicas available, %d updated", s.AvailableReplicas, want, s.UpdatedReplicas)
	done := s.ObservedGeneration >= d.Generation && s.UpdatedReplicas == want && s.AvailableReplicas >= want && s.Replicas == want
	return done, state
}

// WaitDaemonSet waits until the newest version of a DaemonSet is ready on each of its
// nodes, of which there is one at least. It fails soon when a node cannot have its image,
// or nobody may make its pods.
func WaitDaemonSet(ctx context.Context, client kubernetes.Interface, namespace, name string) error {
	var hindered Hindrances
	return poll(ctx, fmt.Sprintf("wait for DaemonSet %s/%s", namespace, name), func(ctx context.Context) (bool, string, error) {
		set, err := client.AppsV1().DaemonSets(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			if passing(err) {
				return false, err.Error(), nil
			}
			return false, "", err
		}
		done, state := daemonSetDone(set)
		if done {
			return done, state, nil
		}
		pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(set.Spec.Selector)})
		if err != nil {
			return false, err.Error(), nil // what is waited for may come all the same
		}
		err = hindered.Look(ctx, client, namespace, pods.Items, int(set.Status.DesiredNumberScheduled)-len(pods.Items), time.Now())
		for i := range pods.Items {
			if pod := &pods.Items[i]; !PodReady(pod) {
				state += "; " + pod.Name + ": " + WhyNotReady(pod)
			}
		}
		return false, state, err
	})
}

func daemonSetDone(set *appsv1.DaemonSet) (bool, string) {
	s := set.Status
	want := s.DesiredNumberScheduled
	state := fmt.Sprintf("ready on %d of %d nodes, %d updated", s.NumberReady, want, s.UpdatedNumberScheduled)
	return s.ObservedGeneration >= set.Generation && want > 0 && s.UpdatedNumberScheduled == want && s.NumberReady == want, state
}

// WaitPods waits until the selected pods of a namespace number at least
// count and all are ready, but for those that are [PodLost]. It fails at once
// when a pod can never become ready (it ended, or was refused by its node), and
// soon when its node cannot have its image, or the API server refuses to have
// it made.
func WaitPods(ctx context.Context, client kubernetes.Interface, namespace, selector string, count int) error {
	what := fmt.Sprintf("wait for %d ready pods of %q in namespace %s", count, selector, namespace)
	var hindered Hindrances
	return poll(ctx, what, func(ctx context.Context) (bool, string, error) {
		pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector, ResourceVersion: "0"})
		if err != nil {
			if passing(err) {
				return false, err.Error(), nil
			}
			return false, "", err
		}
		pods.Items = slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return PodLost(&p) })
		if err := hindered.Look(ctx, client, namespace, pods.Items, count-len(pods.Items), time.Now()); err != nil {
			return false, "", err
		}
		ready, reason := 0, ""
		for i := range pods.Items {
			pod := &pods.Items[i]
			switch {
			case PodReady(pod):
				ready++
			case pod.Status.Phase == corev1.PodFailed && pod.DeletionTimestamp == nil:
				return false, "", fmt.Errorf("pod %s failed: %s %s", pod.Name, pod.Status.Reason, pod.Status.Message)
			default:
				reason = "; " + pod.Name + ": " + WhyNotReady(pod)
			}
		}
		state := fmt.Sprintf("%d of %d ready%s", ready, len(pods.Items), reason)
		return ready >= count && ready == len(pods.Items), state, nil
	})
}

// PodSilent says since when a pod's node is not heard of any more, as the cluster notes in
// the pod's condition Ready within a minute, and there alone: what the node said last is
// that all containers are ready. (One that is not, or a readiness gate, is no dead node.)
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

// PodLost says that a pod has been given up with its node: it was told to end, of which
// nobody will hear until the node is back, and another one takes its place.
func PodLost(pod *corev1.Pod) bool {
	_, silent := PodSilent(pod)
	return silent && pod.DeletionTimestamp != nil
}

// deadNode is how long a pod that may run on any stays on a node that is not heard of: it
// must be back, on another, within the time that pods have to become ready.
const deadNode = 30 * time.Second

// LeaveDeadNodes has pods that are lost with their node made anew on another.
func LeaveDeadNodes(pod *corev1.PodTemplateSpec) {
	seconds := int64(deadNode / time.Second)
	for _, dead := range []string{corev1.TaintNodeUnreachable, corev1.TaintNodeNotReady} {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Key: dead, Operator: corev1.TolerationOpExists,
			Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds})
	}
}

// PodReady tells whether a pod is ready and not being deleted.
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

// WhyNotReady says in a few words what a pod waits for.
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

// passing tells whether a failed read is worth repeating.
func passing(err error) bool { return temporary(err) || apierrors.IsNotFound(err) }
