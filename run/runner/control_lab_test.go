//go:build integration || verify

package runner_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/must"
)

// tinyControl is a study of the control plane: 10 Services, 8 proxies.
const tinyControl = `
control: {changes: %d, settle: 2m, quiet: 1s, idle: 500ms}
settings: {services: 10, proxies: 7, gateways: 1, change: service, change_rate: 1}
blocks: {min: %d, max: %[2]d}
`

// controlStudy writes a control-plane study and returns its path.
func (b *bench) controlStudy(t *testing.T, name string, changes, blocks int) string {
	t.Helper()
	text := "name: " + name + "\nquestion: Does every change arrive?\n" + fmt.Sprintf(strings.TrimSpace(tinyControl), changes, blocks) + "\n"
	return b.file(t, name, text)
}

// verifyControl reads a control-plane run and checks its accounts.
func (b *bench) verifyControl(t *testing.T, out string, trials, changes int) record.Run {
	t.Helper()
	run := loaded(t, out)
	if len(run.Trials) != trials || len(run.Events) != trials*changes {
		t.Fatalf("%d trials of %d, %d changes of %d", len(run.Trials), trials, len(run.Events), trials*changes)
	}
	planned := map[string]int{}
	for _, e := range run.Events {
		if e.Change != planned[e.Trial] {
			t.Errorf("trial %s: change %d comes after %d others", e.Trial, e.Change, planned[e.Trial])
		}
		planned[e.Trial]++
		if (e.CommittedNS == 0) != (e.Error != "") {
			t.Errorf("trial %s, change %d: committed at %d, error %q", e.Trial, e.Change, e.CommittedNS, e.Error)
		}
		if e.Expected != len(e.Seen.Proxy)+len(e.Missed)+e.Superseded {
			t.Errorf("trial %s, change %d: %d needed it, %d had it, %d missed it, %d superseded", e.Trial, e.Change, e.Expected, len(e.Seen.Proxy), len(e.Missed), e.Superseded)
		}
		once := slices.Clone(e.Seen.Proxy)
		slices.Sort(once)
		if len(slices.Compact(once)) != len(e.Seen.Proxy) {
			t.Errorf("trial %s, change %d: a proxy is counted twice: %v", e.Trial, e.Change, e.Seen.Proxy)
		}
	}
	for _, trial := range run.Trials {
		checks := map[string]record.Check{}
		for _, c := range trial.Validity.Checks {
			checks[c.Name] = c
		}
		if c := checks["account"]; !c.OK {
			t.Errorf("trial %s: %s", trial.ID, c.Detail)
		}
		if trial.Control == nil || trial.Control.Changes != changes {
			t.Errorf("trial %s: %+v", trial.ID, trial.Control)
		}
	}
	return run
}

// changed waits until a trial of a run has made that many changes.
func (b *bench) changed(t *testing.T, g *going, count int) {
	t.Helper()
	g.await(t, fmt.Sprintf("%d changes", count), func() bool {
		list, err := b.kube.CoreV1().Services("").List(t.Context(), metav1.ListOptions{LabelSelector: "meshtrial.dev/churn"})
		must.OK(t, err)
		return len(list.Items) >= count
	})
}

// undone checks that a run left nothing behind: no namespace, no simulated
// pods, and istiod unchanged.
func (b *bench) undone(t *testing.T) {
	t.Helper()
	b.gone(t)
	nodes, err := b.kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{LabelSelector: "meshtrial.dev/population"})
	if err != nil || len(nodes.Items) > 0 {
		t.Errorf("%d simulated nodes are left, %v", len(nodes.Items), err)
	}
	istiod, err := b.kube.AppsV1().Deployments("istio-system").Get(t.Context(), "istiod", metav1.GetOptions{})
	must.OK(t, err)
	for key := range istiod.Annotations {
		if strings.HasPrefix(key, "meshtrial.dev/") {
			t.Errorf("istiod still has annotation %s", key)
		}
	}
}
