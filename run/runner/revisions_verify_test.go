//go:build verify

package runner_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/kinds/resilience/verdict"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/store"
	"github.com/meshtrial/meshtrial/testing/labtest"
	"github.com/meshtrial/meshtrial/testing/must"
)

// theIstio returns the lab's objects of Istio.
func theIstio(t *testing.T, b *bench) *labtest.Objects {
	t.Helper()
	return labtest.NewObjects(t, b.lab, func(o *unstructured.Unstructured) bool {
		return o.GetNamespace() == "istio-system" || o.GetNamespace() == "" && strings.Contains(o.GetName(), "istio")
	})
}

// leases returns the names of istiods' election Leases.
func leases(t *testing.T, b *bench) string {
	t.Helper()
	return labtest.Kubectl(t, b.lab, "", "-n", "istio-system", "get", "leases", "-o", "name")
}

// ofCanary occurs in the names of everything that belongs to the second istiod.
const ofCanary = "canary"

// onlyBefore checks that all of Istio is unchanged, and nothing of a second istiod is left.
func onlyBefore(t *testing.T, b *bench, all *labtest.Objects, before map[string]map[string]any) {
	t.Helper()
	all.Same(t, "without a second istiod", before)
	if left := leases(t, b); strings.Contains(left, ofCanary) {
		t.Errorf("of the second istiod there are still Leases:\n%s", left)
	}
}

// TestShippedCanaryUpgrade starts a second istiod next to the first and moves every sidecar
// of the services to it and back, as both istiods confirm. In the end all of Istio is
// unchanged.
func TestShippedCanaryUpgrade(t *testing.T) {
	b := newBench(t)
	all := theIstio(t, b)
	before := all.Now(t)
	out := filepath.Join(b.dir, "canary-upgrade")
	code, said := b.meshtrial(t, "run", "canary-upgrade", "--out", out, "--set", "variant=drain", "--set", "expect={}")
	if code != errs.CodeAssertion { // a request may be lost on a machine that stands still
		measured(t, code, said)
	}
	run, notes, err := store.Load(t.Context(), out)
	if err != nil || len(notes) > 0 || len(run.Trials) != 1 || run.Trials[0].Scenario == nil {
		t.Fatalf("%d trials, %v, %v:\n%s", len(run.Trials), notes, err, said)
	}
	for _, step := range []string{"second revision", "moved move", "back move"} {
		i := slices.IndexFunc(run.Events, func(e record.Event) bool { return e.Step+" "+e.Op == step })
		if i < 0 || run.Events[i].Error != "" || run.Events[i].Proof == "" {
			t.Errorf("%s is not proven: %+v", step, run.Events)
		}
	}
	trial := run.Trials[0]
	for _, part := range []string{"control_plane", "second_control_plane"} {
		if cpu, ok := trial.Scenario.CPU[part]; !ok || cpu.TotalS() <= 0 || trial.Scenario.Memory[part] <= 0 {
			t.Errorf("%s used %+v, %d bytes", part, cpu, trial.Scenario.Memory[part])
		}
	}
	evidence, err := store.ReadEvidence(out, trial.ID)
	var e verdict.Evidence
	if err == nil {
		err = json.Unmarshal(evidence, &e)
	}
	must.OK(t, err)
	var seen []string
	for _, look := range e.Revisions {
		on := map[string]int{}
		for _, s := range look.Sidecars {
			for _, c := range s.Connected {
				on[c.Revision]++
			}
		}
		seen = append(seen, look.When)
		want := map[string]int{"default": 6}
		if look.When == "moved" {
			want = map[string]int{"default": 2, "canary": 4} // the clients stay
		}
		if on["default"] != want["default"] || on["canary"] != want["canary"] {
			t.Errorf("%s: connected %v, want %v", look.When, on, want)
		}
	}
	if want := []string{verdict.BeforeSteps, "moved", "back", verdict.AfterSteps}; !slices.Equal(seen, want) {
		t.Errorf("looks %q, want %q", seen, want)
	}
	b.gone(t)
	onlyBefore(t, b, all, before)
	pods, err := b.kube.CoreV1().Pods("istio-system").List(t.Context(), metav1.ListOptions{LabelSelector: "istio.io/rev=canary"})
	if err != nil || len(pods.Items) > 0 {
		t.Errorf("%d pods of the second istiod are left, %v", len(pods.Items), err)
	}
}

// TestCanaryUpgradeKilled verifies that a run that is killed with two istiods leaves
// nothing of the second for the next run, which does not need to specify the istiod.
func TestCanaryUpgradeKilled(t *testing.T) {
	b := newBench(t)
	all := theIstio(t, b)
	before := all.Now(t)
	out := filepath.Join(b.dir, "killed")
	g := b.start(t, out, "canary-upgrade", "--out", out, "--set", "variant=drain", "--set", "expect={}")
	g.logged(t, "step moved: move")
	g.end(t, os.Kill)
	if !strings.Contains(labtest.Kubectl(t, b.lab, "", "-n", "istio-system", "get", "deployments", "-o", "name"), ofCanary) {
		t.Fatal("there was no second istiod when the run was killed")
	}
	if code, said := b.meshtrial(t, "run", "outlier-detection", "--out", filepath.Join(b.dir, "next"), "--set", "variant=ejects", "--set", "expect={}"); code != errs.CodeAssertion {
		measured(t, code, said)
	}
	b.gone(t)
	onlyBefore(t, b, all, before)
}
