// Package none is the adapter for running without a mesh: pods without
// sidecars, and a check that nothing passed a proxy.
package none

import (
	"context"
	"fmt"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
)

// Kit is the kit for no mesh: only the adapter.
var Kit = mesh.Kit{Name: study.MeshNone, New: func(lab.Images) mesh.Mesh { return Mesh{} }}

// Mesh is the adapter; its zero value is ready.
type Mesh struct{}

var _ mesh.Mesh = Mesh{}

// Name returns "none".
func (Mesh) Name() string { return "none" }

// Check rejects plans with sidecars.
func (Mesh) Check(_ context.Context, _ *rest.Config, proxies []mesh.Proxy) ([]record.Component, error) {
	if len(proxies) > 0 {
		return nil, errs.WithHint(errs.Usage("the study asks for sidecars, but its mesh is none"),
			"set mesh: istio, or sidecars: none")
	}
	return nil, nil
}

// Decorate rejects sidecars.
func (Mesh) Decorate(w mesh.Workload, _ *corev1.PodTemplateSpec) error {
	if w.Proxy != nil {
		return fmt.Errorf("workload %s asks for a sidecar, but the mesh is none", w.Name)
	}
	return nil
}

// DecorateService does nothing.
func (Mesh) DecorateService(*corev1.Service, record.Cell) {}

// Policies returns none.
func (Mesh) Policies([]mesh.Workload) []*unstructured.Unstructured { return nil }

// Proxies returns none.
func (Mesh) Proxies(record.Place) mesh.Proxies { return mesh.Proxies{} }

// ControlPlane returns none.
func (Mesh) ControlPlane() (namespace, selector string) { return "", "" }

// Verify checks that no request has a proxy's mark.
func (Mesh) Verify(e mesh.Evidence) []record.Check {
	return []record.Check{mesh.Expect("no-proxy", e.Worker["through_proxy"], 0, 0, "requests with a proxy's header at the worker")}
}

var _ mesh.Resilience = Mesh{}

// Lacks returns every mesh lever that the cell requests. Disabled retries are
// supported.
func (Mesh) Lacks(cell record.Cell) []mesh.Lack {
	var lacks []mesh.Lack
	for _, factor := range mesh.TrafficFactors {
		switch level := cell[factor]; level {
		case "", study.NotApplicable, study.LevelDefault, study.LevelNone, study.LevelOff:
		default:
			lacks = append(lacks, mesh.Lack{Factor: factor, Level: level, Reason: "there is no mesh"})
		}
	}
	return lacks
}
