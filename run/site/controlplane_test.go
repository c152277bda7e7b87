package site

import (
	"net/http"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe"
)

// plane is a mesh with only a control plane.
type plane struct {
	mesh.Mesh
	selector string
}

func (p plane) ControlPlane() (namespace, selector string) { return "istio-system", p.selector }

func (plane) Name() string { return "istio" }

// The serving replicas are looked up each time, by pods that are ready and not
// terminating. CPU is read of those on observed nodes, and others are reported.
func TestFindControlPlane(t *testing.T) {
	pod := func(name, node string, restarts int32, change func(*corev1.Pod)) runtime.Object {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "istio-system", Name: name, Labels: map[string]string{"app": "istiod"}}, Spec: corev1.PodSpec{NodeName: node}}
		p.Status.Phase = corev1.PodRunning
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "discovery", ContainerID: "containerd://" + name, RestartCount: restarts}}
		if change != nil {
			change(p)
		}
		return p
	}
	s := &Site{Observers: map[string]observe.Client{"seen": {HTTPClient: http.DefaultClient}}, Kube: fakecluster.New(
		pod("b", "seen", 2, nil), pod("a", "unseen", 0, nil),
		pod("ending", "seen", 0, func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Now()} }),
		pod("beginning", "seen", 0, func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }))}
	serving, err := s.FindControlPlane(t.Context(), plane{selector: "app=istiod"})
	if err != nil || !slices.Equal(serving, []string{"a (restart 0)", "b (restart 2)"}) {
		t.Errorf("%q, %v", serving, err)
	}
	if len(s.Control) != 1 || s.Control[0].Name != "b" {
		t.Errorf("measured: %+v", s.Control)
	}
	if why := s.ControlUnseen(); why != "CPU and memory of the control plane were not measured: no observer runs beside a on node unseen" {
		t.Errorf("not measured: %q", why)
	}
	if serving, err := s.FindControlPlane(t.Context(), plane{}); serving != nil || err != nil || s.Control != nil || s.ControlUnseen() != "" {
		t.Errorf("a mesh without one: %q, %v, %+v", serving, err, s.Control)
	}
}
