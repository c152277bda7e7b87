//go:build verify

package runner_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/store"
	"github.com/meshtrial/meshtrial/run/verdict"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/labtest"
	"github.com/meshtrial/meshtrial/testing/must"
)

// Two generators with sidecars send the same as one, and both are charged.
func TestHands(t *testing.T) {
	b := newBench(t)
	_, out := b.attempt(t, b.study(t, "hands", `
settings: {sidecars: both, rate: 300, connections: 5}
factors: {generators: [1, 2], arrival: [poisson, uniform, burst]}
baseline: {generators: 1}
blocks: {min: 2, max: 2, limit: 20m}
`))
	run := verify(t, out, 2)
	checkHands(t, run)
	b.gone(t)
}

// checkHands checks trials with several generators: all of them are recorded, their schedule
// matches that of a single generator, and they account for all connections.
func checkHands(t *testing.T, run record.Run) {
	t.Helper()
	sent := map[string]int64{} // by block and arrivals
	for _, trial := range run.Trials {
		n := dataplane.GeneratorsIn(trial.Cell)
		if trial.Load == nil {
			t.Errorf("trial %s: %+v", trial.ID, trial.Validity)
			continue
		}
		if n > 1 && len(trial.Hands) != n || n == 1 && trial.Hands != nil {
			t.Errorf("trial %s of %d generators has %d", trial.ID, n, len(trial.Hands))
		}
		connections, scheduled := 0, int64(0)
		pods := map[string]bool{}
		for _, h := range trial.Hands {
			connections += h.Connections
			scheduled += h.Scheduled
			pods[h.Pod] = true
			if h.Scheduled == 0 || h.CPU.TotalS() <= 0 {
				t.Errorf("trial %s: a generator did nothing: %+v", trial.ID, h)
			}
		}
		if n > 1 && (connections != 5 || scheduled != trial.Load.Scheduled || len(pods) != n) {
			t.Errorf("trial %s: %d requests, %+v", trial.ID, trial.Load.Scheduled, trial.Hands)
		}
		// All trials of a block have the same number of Poisson arrivals.
		if trial.Cell[study.FactorArrival] == study.ArrivalPoisson {
			key := study.TrialID(trial.Block, 0)
			if sent[key] == 0 {
				sent[key] = trial.Load.Scheduled
			}
			if sent[key] != trial.Load.Scheduled {
				t.Errorf("trial %s of %d generators sent %d requests, another one %d", trial.ID, n, trial.Load.Scheduled, sent[key])
			}
		}
	}
}

// In a long trial, generators record more than fits into a connection while nothing reads it:
// about 2 MB each. It is still collected.
func TestHandsLong(t *testing.T) {
	b := newBench(t)
	out := filepath.Join(b.dir, "long-out")
	code, said := b.meshtrial(t, "run", b.file(t, "long", `
name: long
question: Is all of a long record collected?
mesh: none
settings: {sidecars: none, rate: 4000, connections: 8, generators: 2}
warmup: {min: 30s, max: 31s}
window: 40s
interval: 50ms
blocks: {min: 1, max: 1}
`), "--out", out)
	measured(t, code, said)
	run, _, err := store.Load(t.Context(), out)
	must.OK(t, err)
	complete(t, run, 1)
	for _, trial := range run.Trials {
		if trial.Load == nil || len(trial.Hands) != 2 || trial.Hands[0].Scheduled == 0 || trial.Hands[1].Scheduled == 0 {
			t.Errorf("trial %s: %+v, %+v", trial.ID, trial.Hands, trial.Validity)
		}
	}
	b.gone(t)
}

// A generator's pod that is deleted during a trial removes no part of the load: the trial is
// measured again.
func TestHandLost(t *testing.T) {
	b := newBench(t)
	b.loseHand(t, func(pods []corev1.Pod) {
		last := slices.MaxFunc(pods, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
		now := int64(0)
		must.OK(t, b.kube.CoreV1().Pods(last.Namespace).Delete(t.Context(), last.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}))
	})
	b.gone(t)
}

// A generator, and then a simulator, whose node dies and stays dead is awaited until it is back
// on another node.
func TestHandsNodeLost(t *testing.T) {
	m := labtest.New(t)
	b := benchIn(t, func(t *testing.T) (labtest.Machine, *local.Lab) { return m, m.Up(t, "--nodes", "3") })
	node := func(t *testing.T, do, name string) {
		t.Helper()
		if code, said := m.Run(t, "lab", "node", do, name); code != 0 {
			t.Fatalf("exit code %d\n%s", code, said)
		}
	}
	// without kills the node of one of the pods, and none on which others run.
	without := func(t *testing.T, pods []corev1.Pod, namespace, others string) corev1.Pod {
		t.Helper()
		beside, err := b.kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: others})
		must.OK(t, err)
		i := slices.IndexFunc(pods, func(p corev1.Pod) bool {
			return !slices.ContainsFunc(beside.Items, func(other corev1.Pod) bool { return other.Spec.NodeName == p.Spec.NodeName })
		})
		if i < 0 {
			t.Fatalf("each pod is on a node with %s", others)
		}
		node(t, "kill", pods[i].Spec.NodeName)
		return pods[i]
	}
	dead := ""
	b.loseHand(t, func(pods []corev1.Pod) {
		nodes := map[string]bool{}
		for _, p := range pods {
			nodes[p.Spec.NodeName] = true
		}
		if len(nodes) != 3 {
			t.Fatalf("generators are on %v", nodes)
		}
		dead = without(t, pods, pods[0].Namespace, mesh.AppLabel+"=server-plain").Spec.NodeName
	})
	node(t, "start", dead) // only the node can confirm that its pods have ended
	b.gone(t)
	b.loseSimulator(t, func(pods []corev1.Pod) corev1.Pod {
		lost := without(t, pods, "istio-system", "app=istiod")
		dead = lost.Spec.NodeName
		return lost
	})
	node(t, "start", dead)
	b.undone(t)
}

// loseHand loses one of three load pods of the only run after some trials, and checks that
// the run continues, recreates all pods once, and repeated one trial.
func (b *bench) loseHand(t *testing.T, lose func(pods []corev1.Pod)) {
	t.Helper()
	out := filepath.Join(b.dir, "lost")
	file := b.study(t, "lost", `
mesh: none
settings: {sidecars: none, rate: 300, connections: 5, generators: 3}
factors: {payload: [1KiB, 2KiB]}
baseline: {payload: 1KiB}
blocks: {min: 6, max: 6, limit: 20m, redeploy: 3}
`)
	g := b.start(t, out, file, "--out", out)
	g.trials(t, 4)
	pods, err := b.kube.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{LabelSelector: mesh.AppLabel + "=client-plain"})
	must.OK(t, err)
	if len(pods.Items) != 3 {
		t.Fatalf("%d load pods", len(pods.Items))
	}
	lose(pods.Items)
	code, output := g.end(t)
	measured(t, code, output)
	run, _, err := store.Load(t.Context(), out)
	must.OK(t, err)
	complete(t, run, 6)
	checkHands(t, run)
	if n := run.Trials[len(run.Trials)-1].Deployment; n != 2 {
		t.Errorf("the last trial is of deployment %d\n%s", n, output)
	}
	repeated := 0
	for _, trial := range run.Trials {
		if verdict.NoteRepeated.In(trial.Validity.Warnings) {
			repeated++
		}
	}
	if repeated != 1 {
		t.Errorf("%d trials say that they were repeated\n%s", repeated, output)
	}
}
