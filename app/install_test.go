package app

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// An image that no registry has must be on every node that takes pods.
func TestLacking(t *testing.T) {
	node := func(name string, cordoned, simulated bool, images ...string) corev1.Node {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{Unschedulable: cordoned}}
		if simulated {
			n.Annotations = map[string]string{"kwok.x-k8s.io/node": "fake"}
		}
		for _, image := range images {
			n.Status.Images = append(n.Status.Images, corev1.ContainerImage{Names: []string{image}})
		}
		return n
	}
	nodes := []corev1.Node{
		node("has-all", false, false, "a:1", "b:1"), node("has-one", false, false, "a:1"), node("has-none", false, false),
		node("cordoned", true, false), node("simulated", false, true),
	}
	got := errors.Join(lacking(nodes, []string{"a:1", "b:1"})...).Error()
	want := "node has-one has no image b:1, which is assembled here and in no registry\nnode has-none has no image a:1, b:1, which is assembled here and in no registry"
	if got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if missing := lacking(nodes, nil); len(missing) > 0 {
		t.Errorf("nothing is asked for, and lacking: %v", missing)
	}
}
