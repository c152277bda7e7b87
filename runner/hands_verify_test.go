//go:build verify

package runner_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/store"
	"github.com/meshtrial/meshtrial/study"
)

// Two generators with sidecars send what one sends, and are paid for both.
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

// checkHands checks what trials of several generators must have: all of them, the
// schedule that trials of one have, and connections of the whole.
func checkHands(t *testing.T, run record.Run) {
	t.Helper()
	sent := map[string]int64{} // by block and arrivals
	for _, trial := range run.Trials {
		n := study.GeneratorsIn(trial.Cell)
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
		// Windows of Poisson arrivals have the same in all trials of a block.
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

// A generator's pod that is deleted under way takes no part of the load with it: the
// trial is measured again.
func TestHandLost(t *testing.T) {
	b := newBench(t)
	out := filepath.Join(b.dir, "lost")
	file := b.study(t, "lost", `
mesh: none
settings: {sidecars: none, rate: 300, connections: 5, generators: 3}
factors: {payload: [1KiB, 2KiB]}
baseline: {payload: 1KiB}
blocks: {min: 6, max: 6, limit: 20m, redeploy: 0}
`)
	cmd := b.command("run", file, "--out", out)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	b.loseHand(t, filepath.Join(out, store.FileTrials), ended)
	<-ended
	measured(t, cmd.ProcessState.ExitCode(), output.String())
	run, _, err := store.Load(t.Context(), out)
	if err != nil {
		t.Fatal(err)
	}
	complete(t, run, 6)
	checkHands(t, run)
	repeated := 0
	for _, trial := range run.Trials {
		if slices.ContainsFunc(trial.Validity.Warnings, func(w string) bool { return strings.HasPrefix(w, "the trial was repeated: ") }) {
			repeated++
		}
	}
	if repeated != 1 {
		t.Errorf("%d trials say that they were repeated\n%s", repeated, &output)
	}
	b.gone(t)
}

// loseHand deletes the last load pod of the only run once it has measured some
// trials.
func (b *bench) loseHand(t *testing.T, trials string, ended <-chan error) {
	t.Helper()
	for end := time.Now().Add(5 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		data, _ := os.ReadFile(trials)
		if bytes.Count(data, []byte("\n")) >= 4 {
			break
		}
		select {
		case err := <-ended:
			t.Fatalf("the run ended before its time: %v", err)
		default:
		}
		if time.Now().After(end) {
			t.Fatal("no four trials in five minutes")
		}
	}
	pods, err := b.kube.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{LabelSelector: mesh.AppLabel + "=client-plain"})
	if err != nil {
		t.Fatal(err)
	}
	if len(pods.Items) != 3 {
		t.Fatalf("%d load pods", len(pods.Items))
	}
	last := slices.MaxFunc(pods.Items, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	now := int64(0)
	if err := b.kube.CoreV1().Pods(last.Namespace).Delete(t.Context(), last.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		t.Fatal(err)
	}
}
