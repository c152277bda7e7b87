//go:build verify

package runner_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/run/store"
	"github.com/meshtrial/meshtrial/testing/labtest"
	"github.com/meshtrial/meshtrial/testing/must"
)

// TestRunStandsStill: a run's process stands still for longer than its Lease lasts. If its
// lab does not, its keeper has deleted the namespace in the meantime, and the run deploys
// again. If everything does, as on a sleeping laptop, nothing is mistaken for dead, and
// the pods are the same. Either way only the trials in progress are lost.
func TestRunStandsStill(t *testing.T) {
	b := newBench(t)
	status, err := local.GetStatus(filepath.Dir(b.lab.Kubeconfig()))
	must.OK(t, err)
	for _, c := range []struct {
		name  string
		lab   bool // whether it stands still too
		lost  int  // maximum number of lost trials
		again bool
	}{{"alone", false, 1, true}, {"with its lab", true, 2, false}} {
		t.Run(c.name, func(t *testing.T) {
			out := filepath.Join(b.dir, strings.ReplaceAll(c.name, " ", "-"))
			g := b.start(t, out, b.study(t, filepath.Base(out), `
mesh: none
settings: {sidecars: none, rate: 300, connections: 4}
factors: {payload: [1KiB, 2KiB]}
baseline: {payload: 1KiB}
blocks: {min: 6, max: 6, limit: 20m, redeploy: 0}
`), "--out", out)
			g.trials(t, 4)
			before := b.runPods(t)
			labtest.StandStill(t, journal.Lapse+10*time.Second, func() []int {
				pids := []int{g.cmd.Process.Pid}
				if c.lab {
					pids = append(pids, labtest.PIDs(status.ID, "")...)
				}
				return pids
			})
			g.trials(t, 9)
			after := b.runPods(t)
			code, said := g.end(t)
			measured(t, code, said)
			log, err := os.ReadFile(filepath.Join(out, store.FileLog))
			must.OK(t, err)
			if anew := strings.Contains(string(log), "deploying anew"); anew != c.again || slices.Equal(before, after) == c.again {
				t.Errorf("deployed anew: %v; pods before and after:\n%q\n%q\n%s", anew, before, after, log)
			}
			run, _, err := store.Load(t.Context(), out)
			must.OK(t, err)
			complete(t, run, 6)
			if lost := lostTrials(run); len(lost) > c.lost {
				t.Errorf("%d trials were lost: %q", len(lost), lost)
			}
			for _, trial := range run.Trials { // no figure includes the standstill
				if longest := run.Hist[trial.ID].Intended; trial.Validity.Valid && longest.Max() > int64(20*time.Second) {
					t.Errorf("trial %s is valid, with a request of %v", trial.ID, time.Duration(longest.Max()))
				}
			}
			b.gone(t)
		})
	}
}

// lostTrials returns why each trial that was not completed was lost.
func lostTrials(run record.Run) (out []string) {
	for _, trial := range run.Trials {
		for _, c := range trial.Validity.Checks {
			if c.Name == "carried-through" && !c.OK {
				out = append(out, trial.ID+": "+c.Detail)
			}
		}
	}
	return out
}

// runPods returns the pods of runs, with the start times of their containers.
func (b *bench) runPods(t *testing.T) (out []string) {
	t.Helper()
	pods, err := b.kube.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{LabelSelector: site.RunLabel})
	must.OK(t, err)
	for _, pod := range pods.Items {
		if pod.DeletionTimestamp != nil {
			continue
		}
		out = append(out, string(pod.UID)+" "+pod.Name+starts(&pod))
	}
	slices.Sort(out)
	return out
}

func starts(pod *corev1.Pod) (out string) {
	for _, c := range pod.Status.ContainerStatuses {
		out += " " + c.ContainerID
	}
	return out
}
