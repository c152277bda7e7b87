//go:build verify

package runner_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/run/verdict"
	"github.com/meshtrial/meshtrial/testing/must"
)

// Eight proxies in one pod or in three receive the same changes, each once.
func TestSimulators(t *testing.T) {
	b := newBench(t)
	const changes = 4
	path := b.simulatorStudy(t, "simulators", changes, "}\nfactors: {simulators: [1, 3]}\nbaseline: {simulators: 1}\nblocks: {min: 2, max: 2}\n")
	_, out := b.attempt(t, path)
	checkSimulators(t, b.verifyControl(t, out, 6, changes)) // the baseline has two turns per block
	b.undone(t)
}

// A simulator pod that is deleted during a trial removes none of the proxies: the trial
// is measured again with all of them.
func TestSimulatorLost(t *testing.T) {
	b := newBench(t)
	b.loseSimulator(t, func(pods []corev1.Pod) corev1.Pod {
		last := slices.MaxFunc(pods, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
		now := int64(0)
		must.OK(t, b.kube.CoreV1().Pods(last.Namespace).Delete(t.Context(), last.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}))
		return last
	})
	b.undone(t)
}

// loseSimulator loses one of three pods of simulated proxies while there are changes, and
// checks that the trial was repeated without it.
func (b *bench) loseSimulator(t *testing.T, lose func(pods []corev1.Pod) corev1.Pod) {
	t.Helper()
	const changes = 16
	out := filepath.Join(b.dir, "lost-simulator-out")
	g := b.start(t, out, b.simulatorStudy(t, "lost-simulator", changes, ", simulators: 3}\nblocks: {min: 1, max: 1}\n"), "--out", out)
	b.changed(t, g, changes/4)
	pods, err := b.kube.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{LabelSelector: mesh.AppLabel + "=" + site.RoleXDS})
	must.OK(t, err)
	if len(pods.Items) != 3 {
		t.Fatalf("%d pods of simulated proxies", len(pods.Items))
	}
	lost := lose(pods.Items)
	g.end(t)
	run := b.verifyControl(t, out, 1, changes)
	checkSimulators(t, run)
	trial := run.Trials[0]
	if !slices.ContainsFunc(trial.Validity.Warnings, func(w note.Note) bool {
		return w.Is(verdict.NoteRepeated) && strings.Contains(w.String(), lost.Name)
	}) {
		t.Errorf("the trial does not say that it was repeated: %+v", trial.Validity)
	}
	for _, s := range trial.Control.Simulators {
		if s.Pod == lost.Name {
			t.Errorf("the pod that was lost has its part: %+v", s)
		}
	}
}

// simulatorStudy writes a study with eight proxies and the given settings.
func (b *bench) simulatorStudy(t *testing.T, name string, changes int, rest string) string {
	t.Helper()
	text := fmt.Sprintf("name: %s\nquestion: Does every change arrive?\ncontrol: {changes: %d, settle: 2m, quiet: 1s, idle: 500ms}\n"+
		"settings: {services: 10, proxies: 7, gateways: 1, change: service, change_rate: 1%s", name, changes, rest)
	return b.file(t, name, text)
}

// checkSimulators checks trials with several simulators: all simulators are recorded,
// with all proxies among them, each of which received every change.
func checkSimulators(t *testing.T, run record.Run) {
	t.Helper()
	for _, e := range run.Events {
		sorted := slices.Sorted(slices.Values(e.Seen.Proxy))
		if e.Expected != 8 || !slices.Equal(sorted, []int32{0, 1, 2, 3, 4, 5, 6, 7}) {
			t.Errorf("trial %s, change %d: needed by %d, proxies %v have it", e.Trial, e.Change, e.Expected, sorted)
		}
	}
	for _, trial := range run.Trials {
		n, all := controlplane.SimulatorsIn(trial.Cell), trial.Control.Simulators
		if n > 1 && len(all) != n || n == 1 && all != nil {
			t.Errorf("trial %s of %d simulators has %+v", trial.ID, n, all)
			continue
		}
		proxies, pods := 0, map[string]bool{}
		for _, s := range all {
			proxies += s.Proxies
			pods[s.Pod] = true
			if s.CPU.TotalS() <= 0 || s.RSSBytes == 0 {
				t.Errorf("trial %s: a simulator did nothing: %+v", trial.ID, s)
			}
		}
		if n > 1 && (proxies != 8 || len(pods) != n) {
			t.Errorf("trial %s: %d proxies in %+v", trial.ID, proxies, all)
		}
		if n > 1 && (!says(t, trial, "simulators").OK || !says(t, trial, "simulators-apart").OK) {
			t.Errorf("trial %s: %+v", trial.ID, trial.Validity)
		}
		if c := trial.Control; c.Wire["cds"].Responses == 0 || c.Config["cds"] == 0 || c.ScopeConfig["cds"] == 0 || trial.CPU[record.PartSimulator].TotalS() <= 0 {
			t.Errorf("trial %s: counted %+v, %d bytes of clusters, CPU %+v", trial.ID, c.Wire, c.Config["cds"], trial.CPU)
		}
	}
}
