//go:build verify

package runner_test

import (
	"os"
	"path/filepath"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/run/store"
	"github.com/meshtrial/meshtrial/testing/must"
)

const awayScenario = `
name: away
question: What does a run leave that is killed?
story: Istiod is away, and an object of another namespace is there, when the run dies.
graph: {services: {bar: {replicas: 1}}}
load: {to: bar, clients: 1}
settings: {rate: 20}
timeline:
  duration: 34s
  steps:
  - name: elsewhere
    at: 1s
    config:
      apply: |
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: from-a-step, namespace: default}
        data: {a: b}
  - {name: away, at: 2s, for: 30s, process: {of: istiod, do: kill}}
blocks: {min: 1, max: 1}
stop: none
assert: [total.failed == 0]
`

// TestScenarioKilled kills a run in the middle of the timeline. The next run, which
// resumes it, reverts its changes.
func TestScenarioKilled(t *testing.T) {
	b := newBench(t)
	path, out := b.file(t, "away", awayScenario), filepath.Join(b.dir, "away")
	g := b.start(t, out, path, "--out", out)
	g.logged(t, "step away")
	g.end(t, os.Kill)
	istiod := func() int32 {
		d, err := b.kube.AppsV1().Deployments("istio-system").Get(t.Context(), "istiod", metav1.GetOptions{})
		must.OK(t, err)
		return *d.Spec.Replicas
	}
	if istiod() != 0 {
		t.Fatal("istiod was not away when the run was killed")
	}
	if code, text := b.meshtrial(t, "run", "--resume", out); code != 0 && code != errs.CodeInvalid {
		t.Errorf("resumed, exit code %d:\n%s", code, text)
	}
	if run, notes, err := store.Load(t.Context(), out); err != nil || len(notes) > 0 || len(run.Trials) != 1 || run.Trials[0].Scenario == nil {
		t.Errorf("after it was resumed: %d trials, %q, %v", len(run.Trials), notes, err)
	}
	if n := istiod(); n != 1 {
		t.Errorf("istiod has %d replicas", n)
	}
	_, err := b.kube.CoreV1().ConfigMaps("default").Get(t.Context(), "from-a-step", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("what the step made is still there: %v", err)
	}
	b.gone(t)
}
