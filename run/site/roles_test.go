package site

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/meshtrial/meshtrial/lab"
)

// Where Istio injects every pod, a mesh's adapter would otherwise measure Istio's sidecars.
func TestRolePodIsNotInjected(t *testing.T) {
	pod := RolePod("worker", "run", corev1.Container{}, lab.Images{})
	if got := pod.Labels["sidecar.istio.io/inject"]; got != "false" {
		t.Errorf("label %q", got)
	}
}
