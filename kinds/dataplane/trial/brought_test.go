package trial

import (
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/run/site/sitetest"
	"github.com/meshtrial/meshtrial/testing/studytest"
)

// A pod that Istio's node agent does not redirect ends a deployment if cells are in an ambient
// mesh, and no other.
func TestAwaitBrought(t *testing.T) {
	pod := func(redirection string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "client-ambient-1", Labels: map[string]string{"istio.io/dataplane-mode": "ambient"},
			Annotations: map[string]string{"ambient.istio.io/redirection": redirection}}, Spec: corev1.PodSpec{NodeName: "one"},
			Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}}
	}
	for name, c := range map[string]struct{ sidecars, redirection, fails string }{
		"redirected": {"ambient", "enabled", ""},
		"not":        {"ambient", "pending", `Istio's node agent on node one has not added pod client-ambient-1 to the node's proxy after 60 checks: its annotation ambient.istio.io/redirection is "pending", not "enabled"`},
		"nor need":   {"both", "pending", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				plan := studytest.Plan(t, studytest.ThreeCells, "mesh=istio", "sidecars="+c.sidecars)
				d := &deployed{Site: &site.Site{Kube: fakecluster.New(pod(c.redirection)), Namespace: "ns"}, topology: newTopology("ns", plan), o: &runner.Options{Mesh: sitetest.Istio()}}
				err := d.awaitBrought(t.Context())
				if (err == nil) != (c.fails == "") || err != nil && (!strings.Contains(err.Error(), c.fails) || !strings.Contains(errs.Hint(err), "-l k8s-app=istio-cni-node")) {
					t.Errorf("%v (hint %q), want %q", err, errs.Hint(err), c.fails)
				}
			})
		})
	}
}
