package none

import (
	"testing"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	corev1 "k8s.io/api/core/v1"
)

func TestRefusesSidecars(t *testing.T) {
	if _, err := (Mesh{}).Check(t.Context(), nil, nil); err != nil {
		t.Errorf("a study without sidecars is refused: %v", err)
	}
	_, err := Mesh{}.Check(t.Context(), nil, []mesh.Proxy{{}})
	if errs.Code(err) != errs.CodeUsage || errs.Hint(err) == "" {
		t.Errorf("Check: %v, exit code %d", err, errs.Code(err))
	}
	if err := (Mesh{}).Decorate(mesh.Workload{Name: "w", Proxy: &mesh.Proxy{}}, &corev1.PodTemplateSpec{}); err == nil {
		t.Error("Decorate took a sidecar")
	}
	if err := (Mesh{}).Decorate(mesh.Workload{Name: "w"}, &corev1.PodTemplateSpec{}); err != nil {
		t.Error(err)
	}
}

func TestVerify(t *testing.T) {
	for passed, want := range map[float64]bool{0: true, 1: false} {
		checks := Mesh{}.Verify(mesh.Evidence{Worker: map[string]float64{"requests": 10, "through_proxy": passed}})
		if len(checks) != 1 || checks[0].OK != want || checks[0].Name != "no-proxy" {
			t.Errorf("%v requests through a proxy: %+v", passed, checks)
		}
	}
}

func TestLacks(t *testing.T) {
	cell := record.Cell{"rate": "100", "drain": "true", "debounce_after": "100ms", "retry_on": "-", "per_try_timeout": "none", "request_timeout": "none",
		"retries": "off", "outlier_detection": "off", "circuit_breaker": "off", "load_balancer": "default"}
	if got := (Mesh{}).Lacks(cell); len(got) > 0 {
		t.Errorf("lacks %+v", got)
	}
	got := Mesh{}.Lacks(cell.With(map[string]string{"retries": "3", "load_balancer": "random"}))
	if len(got) != 2 || got[0] != (mesh.Lack{Factor: "retries", Level: "3", Reason: "there is no mesh"}) || got[1].Factor != "load_balancer" {
		t.Errorf("lacks %+v", got)
	}
}
