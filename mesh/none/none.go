// Package none is the adapter for no mesh at all: pods without sidecars,
// and a check that nothing came through a proxy.
package none

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe/ledger"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
)

// Kit is what no mesh brings: the adapter alone.
var Kit = mesh.Kit{Name: study.MeshNone, New: func(lab.Images) mesh.Mesh { return Mesh{} }}

// Mesh is the adapter; its zero value is ready.
type Mesh struct{}

var _ mesh.Mesh = Mesh{}

// Name returns "none".
func (Mesh) Name() string { return "none" }

// Check refuses plans that ask for sidecars.
func (Mesh) Check(_ context.Context, _ *rest.Config, proxies []mesh.Proxy) ([]record.Component, error) {
	if len(proxies) > 0 {
		return nil, errs.WithHint(errs.Usage("the study asks for sidecars, but its mesh is none"),
			"set mesh: istio, or sidecars: none")
	}
	return nil, nil
}

// Decorate keeps other meshes' injectors away.
func (Mesh) Decorate(w mesh.Workload, pod *corev1.PodTemplateSpec) error {
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

// Verify checks that no request carried a proxy's mark.
func (Mesh) Verify(e mesh.Evidence) []record.Check {
	return []record.Check{mesh.Expect("no-proxy", e.Worker["through_proxy"], 0, 0, "requests with a proxy's header at the worker")}
}

var _ mesh.Resilience = Mesh{}

// Lacks names every lever of a mesh that the cell asks for. Retries that are
// off are what there is.
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

// Traffic returns none.
func (Mesh) Traffic(mesh.Route, record.Cell) []*unstructured.Unstructured { return nil }

// ConfigPath returns "".
func (Mesh) ConfigPath() string { return "" }

// CheckTraffic has nothing to check.
func (Mesh) CheckTraffic([]byte, []mesh.Route, record.Cell, bool) []record.Check { return nil }

// LogContainer returns "".
func (Mesh) LogContainer() string { return "" }

// LogsInboundOnly is false.
func (Mesh) LogsInboundOnly() bool { return false }

// ReadLog fails: there is no log.
func (Mesh) ReadLog(io.Reader, ledger.Source, func(ledger.ProxyEntry)) (ledger.Lines, error) {
	return ledger.Lines{}, errors.New("without a mesh no proxy writes a log")
}

// EjectedFilter returns "".
func (Mesh) EjectedFilter() string { return "" }

// Ejected returns none.
func (Mesh) Ejected(map[string]float64, string) map[string]int { return nil }

// CertificatePath returns "".
func (Mesh) CertificatePath() string { return "" }

// Certificate fails: there is none.
func (Mesh) Certificate([]byte) (mesh.Certificate, error) {
	return mesh.Certificate{}, errors.New("without a mesh there are no workload certificates")
}
