//go:build verify

package runner_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/record"
)

// TestKubelets verifies that a run that uses kubelets has no observer, reports what it does
// not measure, and has the CPU and memory of every part. TestBesideTheCgroup of
// observe/kubelet checks their accuracy.
func TestKubelets(t *testing.T) {
	b := newBench(t)
	file := b.study(t, "kubelets", `
settings: {sidecars: both, rate: 300}
factors: {connections: [2, 8]}
baseline: {connections: 2}
blocks: {min: 2, max: 2, limit: 20m, redeploy: 0}
measures: [latency, cpu, memory, connections, threads]
`)
	out := filepath.Join(b.dir, "kubelets")
	code, said := b.meshtrial(t, "run", file, "--out", out, "--observe", "kubelet", "--set", "window=12s")
	measured(t, code, said)
	if !strings.Contains(said, "threads, their waits, sockets") || !strings.Contains(said, "create daemonsets.apps") {
		t.Errorf("what is not measured is not told:\n%s", said)
	}
	run := loaded(t, out)
	if why := noneValid(run); why != "" {
		t.Fatalf("%s\n%s", why, said)
	}
	if h := run.Header; h.Observed != record.ObservedKubelet || h.Machine.CPUs == 0 || h.Machine.Kernel == "" || h.Machine.Nodes != 1 || !strings.HasPrefix(h.Machine.ContainerRun, "containerd ") {
		t.Errorf("%+v", h)
	}
	for _, trial := range run.Trials {
		if trial.Threads != nil || trial.Pressure != nil || trial.Others != nil || len(trial.Connections) > 0 {
			t.Errorf("trial %s has what kubelets do not tell", trial.ID)
		}
		if trial.Memory[record.PartClientProxy].WorkingSetBytes <= 0 || trial.Memory[record.PartControl].WorkingSetBytes <= 0 || trial.CPU[record.PartControl].TotalS() <= 0 {
			t.Errorf("trial %s: memory %+v, CPU %+v", trial.ID, trial.Memory, trial.CPU)
		}
		for _, part := range []string{record.PartGenerator, record.PartWorker, record.PartClientProxy, record.PartServerProxy} {
			if used, s := trial.CPU[part].TotalS(), trial.Sampled[part]; used <= 0 || used < s.LowS || used > s.HighS || s.Samples == 0 {
				t.Errorf("trial %s, %s: %.4f s, sampled %+v", trial.ID, part, used, s)
			}
		}
	}
	b.gone(t)
}
