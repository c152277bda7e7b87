package app

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
)

// The mesh's configuration is looked for where the revision has it; who may not list
// istiods gets that of Istio's charts, and a note.
func TestMeshConfigMap(t *testing.T) {
	istiod := func(revision string) *appsv1.Deployment {
		return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "istio-system", Name: "istiod-" + revision, Labels: map[string]string{"app": "istiod", "istio.io/rev": revision}}}
	}
	kube := fakecluster.New(istiod("canary"))
	if name, note, err := meshConfigMap(t.Context(), kube, ""); name != "istio-canary" || note != "" || err != nil {
		t.Errorf("%s, %s, %v", name, note, err)
	}
	if _, _, err := meshConfigMap(t.Context(), fakecluster.New(istiod("canary"), istiod("stable")), ""); errs.Code(err) != errs.CodeUsage || !strings.Contains(errs.Hint(err), "--revision") {
		t.Errorf("several: %v", err)
	}
	for revision, want := range map[string]string{"": "istio", "default": "istio", "canary": "istio-canary"} {
		if name, note, err := meshConfigMap(t.Context(), fakecluster.New(), revision); name != want || !strings.Contains(note, "using ConfigMap "+want) || err != nil {
			t.Errorf("none, asked for %q: %s, %s, %v", revision, name, note, err)
		}
	}
}
