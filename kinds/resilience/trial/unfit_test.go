package trial

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/run/site/sitetest"
	"github.com/meshtrial/meshtrial/study"
)

// oldMesh has ztunnels of Istio 1.29, which it accepts or not.
type oldMesh struct {
	mesh.Mesh
	fit bool
}

func (oldMesh) Proxies(record.Place) mesh.Proxies {
	return mesh.Proxies{Namespace: "istio-system", Selector: "app=ztunnel", Containers: []string{"istio-proxy"},
		Admin: func(*http.Client) mesh.Admin { return oldAdmin{} }}
}

func (m oldMesh) Fits(at record.Place, running mesh.ProxyState) error {
	if m.fit {
		return nil
	}
	return fmt.Errorf("the %s's proxy is of Istio %s", at, running.Version)
}

type oldAdmin struct{ mesh.Admin }

func (oldAdmin) Version(context.Context) (string, error) { return "1.29.0", nil }

// A graph trial queries the identity of the proxies that carry its requests. One that must not be
// measured ends the run, even if trials of other cells would succeed, if a step brought it, or if
// an earlier trial had another.
func TestUnfitProxy(t *testing.T) {
	for _, fit := range []bool{true, false} {
		pod := nodeProxy("a", "one", true)
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "istio-proxy", ContainerID: "containerd://1"}}
		trial := sharedTrial(fakecluster.New(pod))
		trial.Kubelets, trial.Dialer = true, lab.NewDialer(&rest.Config{})
		trial.scene = &scene{mesh: oldMesh{sitetest.Istio(), fit}, cell: record.Cell{study.FactorSidecars: study.SidecarsAmbient}}
		trial.shared.nodes = []string{"one"}
		present, err := trial.present(t.Context())
		if fit {
			if err != nil || len(present[record.PartNode]) != 1 {
				t.Errorf("the right one: %v, %v", present, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), "the node's proxy is of Istio 1.29.0") {
			t.Fatalf("another: %v, %v", present, err)
		}
		trial.revisions = &revisions{shared: fault.Installed, planes: map[string]mesh.Plane{fault.Installed: {}, "canary": {NodeVersion: "1.29.0"}}}
		if _, err := trial.present(t.Context()); err != nil {
			t.Errorf("on its way back from another version: %v", err)
		}
		trial.revisions = nil
		trial.carriers = record.Way{record.PartNode}
		if err := trial.lasting(err); !runner.IsFatal(err) {
			t.Errorf("the run goes on: %v", err)
		}
		if err := trial.checkAfterwards(t.Context(), outcome{}, nil); !runner.IsFatal(err) || len(trial.evidence.Carried) > 0 {
			t.Errorf("the run goes on after steps: %v, %+v", err, trial.evidence.Carried)
		}
	}
}
