package cli

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/app"
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

// Flags that contradict each other are refused before anything is asked.
func TestInstallSource(t *testing.T) {
	t.Setenv(app.LinkerdVariable, "")
	for _, tt := range []struct {
		mesh clusterMesh
		want string // of the error, or where Linkerd comes from
	}{
		{clusterMesh{name: "istio", images: "official"}, ""},
		{clusterMesh{name: "istio", images: "built"}, ""},
		{clusterMesh{name: "istio", images: "pulled"}, `--images must be built or official, not "pulled"`},
		{clusterMesh{name: "istio", images: "built", tag: "1"}, "require --images official"},
		{clusterMesh{name: "istio", images: "official", linkerd: "edge"}, "does not apply to istio"},
		{clusterMesh{name: "linkerd", images: "official", hub: "x"}, "name Istio's images"},
		{clusterMesh{name: "linkerd", images: "official"}, "edge"},
		{clusterMesh{name: "linkerd", images: "official", linkerd: "edge-26.8.3"}, "edge-26.8.3"},
	} {
		m := tt.mesh
		err := m.checkSource()
		got := m.linkerd
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("%+v: %q, want %q", tt.mesh, got, tt.want)
		}
	}
}
