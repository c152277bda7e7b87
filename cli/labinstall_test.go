package cli

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/app"
)

// Flags that contradict each other are refused before anything is asked.
func TestInstallSource(t *testing.T) {
	t.Setenv(app.LinkerdVariable, "")
	for _, tt := range []struct {
		mesh clusterMesh
		want string // of the error, or where Linkerd comes from
	}{
		{clusterMesh{MeshOptions: app.MeshOptions{Name: "istio"}, images: "official"}, ""},
		{clusterMesh{MeshOptions: app.MeshOptions{Name: "istio"}, images: "built"}, ""},
		{clusterMesh{MeshOptions: app.MeshOptions{Name: "istio"}, images: "pulled"}, `--images must be built or official, not "pulled"`},
		{clusterMesh{MeshOptions: app.MeshOptions{Name: "istio", Tag: "1"}, images: "built"}, "require --images official"},
		{clusterMesh{MeshOptions: app.MeshOptions{Name: "istio", Linkerd: "edge"}, images: "official"}, "does not apply to istio"},
		{clusterMesh{MeshOptions: app.MeshOptions{Name: "linkerd", Hub: "x"}, images: "official"}, "name Istio's images"},
		{clusterMesh{MeshOptions: app.MeshOptions{Name: "linkerd"}, images: "official"}, "edge"},
		{clusterMesh{MeshOptions: app.MeshOptions{Name: "linkerd", Linkerd: "edge-26.8.3"}, images: "official"}, "edge-26.8.3"},
	} {
		m := tt.mesh
		err := m.checkSource()
		got := m.Linkerd
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("%+v: %q, want %q", tt.mesh, got, tt.want)
		}
	}
}
