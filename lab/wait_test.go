package lab

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	k8stesting "k8s.io/client-go/testing"

	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
	"github.com/meshtrial/meshtrial/internal/podstate"
	"github.com/meshtrial/meshtrial/internal/podwait"
)

// A terminating pod is waited for, unless its node is silent: its end will never be
// reported, and another pod has taken its place.
func TestWaitPodsOfDeadNodes(t *testing.T) {
	pod := func(name string, ready corev1.ConditionStatus, containers, ending bool) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{"app": "xds"}},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}, ContainerStatuses: []corev1.ContainerStatus{{Ready: containers}}}}
		if ending {
			p.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		}
		return p
	}
	for name, c := range map[string]struct {
		other *corev1.Pod
		done  bool
	}{
		"of a dead node":         {pod("b", corev1.ConditionFalse, true, true), true},
		"not yet given up":       {pod("b", corev1.ConditionFalse, true, false), false},
		"that ends":              {pod("b", corev1.ConditionFalse, false, true), false},
		"that is about to end":   {pod("b", corev1.ConditionTrue, true, true), false},
		"that is ready as it is": {pod("b", corev1.ConditionTrue, true, false), true},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err := WaitPods(ctx, fakecluster.New(pod("a", corev1.ConditionTrue, true, false), c.other), "ns", "app=xds", 1)
			if (err == nil) != c.done {
				t.Errorf("a pod %s: %v", name, err)
			}
		})
	}
}

// Lists that take long are not requested back to back.
func TestWaitPodsOfLongLists(t *testing.T) {
	for _, c := range []struct {
		takes      time.Duration
		less, more int // lists in a minute
	}{{time.Millisecond, 590, 610}, {time.Second, 10, 13}} {
		synctest.Test(t, func(t *testing.T) {
			client, lists := fakecluster.New(), 0
			client.PrependReactor("list", "pods", func(k8stesting.Action) (bool, runtime.Object, error) {
				lists++
				time.Sleep(c.takes)
				return false, nil, nil
			})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := WaitPods(ctx, client, "ns", "app=load", 1); !errors.Is(err, context.DeadlineExceeded) || lists < c.less || lists > c.more {
				t.Errorf("lists that take %v: %d in a minute, %v", c.takes, lists, err)
			}
		})
	}
}

// A DaemonSet whose image no node can get is not waited for.
func TestWaitDaemonSetWithoutImage(t *testing.T) {
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "ztunnel"},
		Spec:   appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "ztunnel"}}},
		Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: 1}}
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "ztunnel-1"}, Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{
		{Name: "ztunnel", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "InvalidImageName", Message: "couldn't parse"}}}}}}
	pod.Labels = map[string]string{"app": "ztunnel"}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := WaitDaemonSet(ctx, fakecluster.New(set, &pod), "ns", "ztunnel"); err == nil || !strings.Contains(err.Error(), "is not the name of an image") {
		t.Errorf("%v", err)
	}
}

// A pod of an older version, which a rollout keeps until the new ones are ready, does not
// end a wait, whatever keeps it from starting.
func TestWaitDeploymentBesideOldPods(t *testing.T) {
	for name, c := range map[string]struct {
		newest  string // version of the newest pod; "" if there is one pod
		updated int32
		unseen  bool // the controller has not seen the newest version yet
		ends    bool
	}{
		"old pod is stuck": {newest: "new", updated: 1}, "new pod is stuck": {newest: "old", updated: 1, ends: true},
		"no new pod yet": {}, "no new version yet": {updated: 1, unseen: true}, "the only pod is stuck": {updated: 1, ends: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			one := int32(1)
			labels := map[string]string{"app": "istiod"}
			d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "istiod"},
				Spec: appsv1.DeploymentSpec{Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: labels}}}
			pod := func(hash string, at int64) *corev1.Pod {
				p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: hash, UID: types.UID(hash), CreationTimestamp: metav1.Unix(at, 0),
					Labels: map[string]string{"app": "istiod", appsv1.DefaultDeploymentUniqueLabelKey: hash}}}
				if hash == "old" {
					p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImageNeverPull"}}}}
				}
				return p
			}
			d.Status.UpdatedReplicas = c.updated
			if c.unseen {
				d.Generation = 1
			}
			client := fakecluster.New(d, pod("old", 10))
			if c.newest != "" {
				client = fakecluster.New(d, pod("old", 10), pod("new", map[string]int64{"new": 20, "old": 5}[c.newest]))
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err := WaitDeployment(ctx, client, "ns", "istiod")
			if terminal := (*podwait.TerminalError)(nil); err == nil || errors.As(err, &terminal) != c.ends {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

// A wait for a Deployment whose pods a quota rejects ends with the message of the
// Deployment's condition, which requires no right to read events.
func TestWaitDeploymentRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := int32(1)
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "load"},
			Spec: appsv1.DeploymentSpec{Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "load"}}},
			Status: appsv1.DeploymentStatus{Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue,
				Reason: "FailedCreate", Message: `pods "load-x" is forbidden: exceeded quota: small`}}}}
		client := fakecluster.New(d)
		client.PrependReactor("list", "events", func(k8stesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "", errors.New("no"))
		})
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		began := time.Now()
		err := WaitDeployment(ctx, client, "ns", "load")
		var terminal *podwait.TerminalError
		if !errors.As(err, &terminal) || terminal.Problem.Code != podstate.Refused || !strings.Contains(err.Error(), "Deployment ns/load cannot make its pods: ") || time.Since(began) > 21*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}
