package lab

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
)

// pulling is a pod whose container waits for this reason; "" is one that runs.
func pulling(name, reason, message string) corev1.Pod {
	status := corev1.ContainerStatus{Name: "load", Image: "registry.example/x"}
	if reason == "" {
		status.State.Running = &corev1.ContainerStateRunning{}
	} else {
		status.State.Waiting = &corev1.ContainerStateWaiting{Reason: reason, Message: message}
	}
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "uid"}}
	pod.Spec.NodeName = "node1"
	pod.Spec.Containers = []corev1.Container{{Name: "load", Image: "registry.example/meshtrial:1"}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{status}
	return pod
}

func TestPulls(t *testing.T) {
	type look struct {
		at              time.Duration
		reason, message string
		fail            string
	}
	for name, looks := range map[string][]look{
		"a name that is none": {{0, "InvalidImageName", "couldn't parse", "registry.example/meshtrial:1 is not the name of an image: couldn't parse"}},
		"not to be pulled":    {{0, "ErrImageNeverPull", "x", "node node1 may not pull image registry.example/meshtrial:1"}},
		"refused again and again": {
			{0, "ContainerCreating", "", ""},
			{time.Second, "ErrImagePull", "manifest unknown", ""},
			{2 * time.Second, "ImagePullBackOff", "Back-off pulling image", ""},
			{11 * time.Second, "ErrImagePull", "denied", ""},
			{20*time.Second + 999*time.Millisecond, "ImagePullBackOff", "Back-off pulling image", ""},
			{21 * time.Second, "ImagePullBackOff", "Back-off pulling image", "node node1 cannot pull image registry.example/meshtrial:1: denied"},
		},
		"pulled in the end": {
			{0, "ErrImagePull", "timeout", ""},
			{time.Minute, "ContainerCreating", "", ""},
			{2 * time.Minute, "", "", ""},
			{3 * time.Minute, "ErrImagePull", "timeout", ""},
			{3*time.Minute + time.Second, "ImagePullBackOff", "", ""},
		},
		"no message": {
			{0, "ImagePullBackOff", "", ""},
			{time.Minute, "ImagePullBackOff", "", "ImagePullBackOff"},
		},
		"another reason": {{0, "CreateContainerConfigError", "no secret", ""}, {time.Hour, "CreateContainerConfigError", "no secret", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			var p pulls
			begin := time.Now()
			for _, l := range looks {
				err := p.look([]corev1.Pod{pulling("load-1", l.reason, l.message)}, begin.Add(l.at))
				switch {
				case l.fail == "" && err != nil:
					t.Fatalf("at %v, %s: %v", l.at, l.reason, err)
				case l.fail != "" && (err == nil || !strings.Contains(err.Error(), "container load of pod ns/load-1: ") || !strings.Contains(err.Error(), l.fail)):
					t.Fatalf("at %v, %s: %v, want %q", l.at, l.reason, err, l.fail)
				case l.fail != "" && !strings.Contains(errs.Hint(err), "docs/cluster.md"):
					t.Errorf("its hint is %q", errs.Hint(err))
				}
			}
		})
	}
}

// Waiting ends long before its context does.
func TestWaitPodsThatCannotBePulled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pod := pulling("load-1", "ErrImagePull", "not found")
		pod.Labels = map[string]string{"app": "load"}
		pod.Status.Phase = corev1.PodPending
		client := fakecluster.New(&pod)
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		err := WaitPods(ctx, client, "ns", "app=load", 1)
		if err == nil || !strings.Contains(err.Error(), "cannot pull image") || ctx.Err() != nil {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}
