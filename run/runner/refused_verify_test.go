//go:build verify

package runner_test

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/internal/ending"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/testing/must"
)

// noPods is a policy of a cluster that denies runs the pods of an app.
func noPods(app string) []byte {
	return []byte(strings.ReplaceAll(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: no-APP}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
    objectSelector: {matchLabels: {app.kubernetes.io/part-of: meshtrial}}
  validations: [{expression: "!object.metadata.labels['app.kubernetes.io/name'].startsWith('APP')", message: "ask the platform team for APP"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: no-APP}
spec: {policyName: no-APP, validationActions: [Deny]}
`, "APP", app))
}

// TestRefusedPods verifies that a run whose pods are denied by a policy of the
// cluster quotes the policy long before its timeout, and leaves nothing behind.
func TestRefusedPods(t *testing.T) {
	b := newBench(t)
	applier, err := lab.NewApplier(b.lab.RESTConfig())
	must.OK(t, err)
	for _, app := range []string{"client", "observe"} {
		t.Run(app, func(t *testing.T) {
			must.OK(t, applier.Apply(t.Context(), noPods(app)))
			defer func() {
				ctx, cancel := ending.Within(t.Context(), time.Minute)
				defer cancel()
				if err := applier.Delete(ctx, noPods(app)); err != nil {
					t.Error(err)
				}
			}()
			b.awaitRefusal(t, app)
			code, said := b.meshtrial(t, "run", b.study(t, "refused", "mesh: none\nsettings: {sidecars: none, rate: 100}\nblocks: {min: 2, max: 2}\n"))
			if code != errs.CodeFailure || !strings.Contains(said, "cannot make its pods") || !strings.Contains(said, "ask the platform team for "+app) {
				t.Errorf("exit code %d:\n%s", code, said)
			}
			b.gone(t)
		})
	}
}

// awaitRefusal waits until the API server applies a policy, which takes a moment.
func (b *bench) awaitRefusal(t *testing.T, app string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "refused", Labels: map[string]string{mesh.AppLabel: app, "app.kubernetes.io/part-of": "meshtrial"}},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "none"}}}}
		_, err := b.kube.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil && strings.Contains(err.Error(), "ask the platform team") {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("the policy does not hold: %v", err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}
