package trial

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/must"
)

// A pod that went by itself once its service has fewer replicas need not be ended, and the others
// are.
func TestRemoveAbruptly(t *testing.T) {
	for name, c := range map[string]struct {
		first error  // of ending the first of two pods
		ended string // the pods that were to be
	}{
		"both stand":                 {nil, "bar-1 bar-2"},
		"the first is gone":          {apierrors.NewNotFound(corev1.Resource("pods"), "bar-1"), "bar-1 bar-2"},
		"the first may not be ended": {apierrors.NewForbidden(corev1.Resource("pods"), "bar-1", nil), "bar-1"},
	} {
		cluster := fakecluster.New()
		cluster.PrependReactor("patch", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, nil })
		var ended []string
		cluster.PrependReactor("delete", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
			pod := action.(clienttesting.DeleteAction).GetName()
			ended = append(ended, pod)
			if pod == "bar-1" {
				return true, nil, c.first
			}
			return true, nil, nil
		})
		trial := sharedTrial(cluster)
		trial.scene, trial.census = sceneOf(t, "drain"), newTestCensus()
		for _, pod := range []string{"bar-1", "bar-2"} {
			trial.census.pods[pod] = &resident{uid: pod, ScenarioPod: record.ScenarioPod{Name: pod, Service: "bar"}}
		}
		step, err := newExecutor(t.Context(), trial).Prepare(t.Context(), fault.Occurrence{Name: "gone", Action: &fault.Remove{Replicas: fault.Replicas{Service: "bar", Count: 2, Abrupt: true}}})
		must.OK(t, err)
		err = step.Begin(t.Context())
		if (err != nil) != apierrors.IsForbidden(c.first) || strings.Join(ended, " ") != c.ended {
			t.Errorf("%s: %v, ended %v", name, err, ended)
		}
	}
}
