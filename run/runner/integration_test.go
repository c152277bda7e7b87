//go:build integration

package runner_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/store"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

// TestRuns runs studies through the program, on one lab; those that mostly wait for
// pods run concurrently. There is also a namespace of a run that may or may not be
// alive.
func TestRuns(t *testing.T) {
	b := newBench(t)
	t.Run("interrupted, killed, resumed", b.testInterruptions)
	const foreign = "meshtrial-foreign"
	namespaces := b.kube.CoreV1().Namespaces()
	must.OK(t, must.Err(namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: foreign, Labels: map[string]string{"meshtrial.dev/run": "foreign"}}}, metav1.CreateOptions{})))
	t.Run("side by side", func(t *testing.T) {
		t.Run("through shared proxies", func(t *testing.T) {
			t.Parallel()
			b.testShared(t)
		})
		t.Run("in a cluster of a stranger", func(t *testing.T) {
			t.Parallel()
			b.testCluster(t, foreign)
		})
		t.Run("in every mode", func(t *testing.T) {
			t.Parallel()
			b.testModes(t)
		})
	})
	b.gone(t, foreign)
	if !slices.Contains(b.namespaces(t), foreign) {
		t.Error("a namespace of another run was removed")
	}
	if err := namespaces.Delete(t.Context(), foreign, metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}

// testCluster uses the local lab's kubeconfig like that of any cluster, which has a
// namespace that a run may have left behind.
func (b *bench) testCluster(t *testing.T, foreign string) {
	file := b.study(t, "cluster", `
settings: {rate: 200, connections: 4}
factors: {sidecars: [none, both]}
blocks: {min: 1, max: 1, limit: 20m}
`)
	var stdout, stderr bytes.Buffer
	_, out := b.unspoilt(t, "cluster", func(out string) string {
		cmd := b.command("run", file, "--out", out, "--json", "--lab", "cluster", "--image", b.lab.Images().Meshtrial)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + b.dir, "KUBECONFIG=" + b.lab.Kubeconfig()}
		stdout.Reset()
		stderr.Reset()
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		err := cmd.Run()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		measured(t, cmd.ProcessState.ExitCode(), stderr.String())
		return stderr.String()
	})
	run := verify(t, out, 1)
	if run.Header.Lab != "cluster" {
		t.Errorf("the lab is called %q", run.Header.Lab)
	}
	var findings record.Findings
	if err := json.Unmarshal(stdout.Bytes(), &findings); err != nil || len(findings.Findings) == 0 {
		t.Errorf("--json printed %d bytes: %v", stdout.Len(), err)
	}
	if !strings.Contains(stderr.String(), "meshtrial cluster restore --run foreign") {
		t.Errorf("no warning of namespace %s:\n%s", foreign, &stderr)
	}
}

// testInterruptions ends a run by Ctrl-C, its resumption by kill -9, and lets the
// third attempt finish it. There are enough trials that some remain however late a
// signal arrives. The generator speaks TLS, as in no other run of "test".
func (b *bench) testInterruptions(t *testing.T) {
	const blocks = 4
	file, out := b.study(t, "broken", `
mesh: none
settings: {sidecars: none, rate: 200}
load: {tls: true}
factors: {connections: [1, 4]}
baseline: {connections: 1}
blocks: {min: 4, max: 4, limit: 20m}
seed: 11
`), filepath.Join(b.dir, "broken")
	trials := filepath.Join(out, store.FileTrials)
	// attempt sends a signal once that many trials are on disk, and returns what was
	// stored when the program had ended.
	attempt := func(count int, signal os.Signal, args ...string) (text string, kept []byte, code int) {
		t.Helper()
		g := b.start(t, out, args...)
		g.trials(t, count)
		code, text = g.end(t, signal)
		kept, err := os.ReadFile(trials)
		must.OK(t, err)
		return text, kept, code
	}
	text, first, code := attempt(2, os.Interrupt, file, "--out", out)
	if code != errs.CodeInterrupted || !strings.Contains(text, "--resume "+out) {
		t.Errorf("after Ctrl-C: exit code %d\n%s", code, text)
	}
	if f := readFindings(t, out); len(f.Cells) == 0 {
		t.Errorf("what an interrupted run has found: %+v", f)
	}
	b.gone(t)
	_, second, code := attempt(bytes.Count(first, []byte("\n"))+2, syscall.SIGKILL, "--resume", out)
	if code != -1 || !bytes.HasPrefix(second, first) {
		t.Errorf("after kill -9: exit code %d, the first attempt's trials kept: %v", code, bytes.HasPrefix(second, first))
	}
	if left := b.namespaces(t); len(left) != 1 {
		t.Errorf("after kill -9 there are namespaces %v", left)
	}
	code, text = b.meshtrial(t, "run", "--resume", out)
	measured(t, code, text)
	whole, err := os.ReadFile(trials)
	must.OK(t, err)
	if kept := second[:bytes.LastIndexByte(second, '\n')+1]; !bytes.HasPrefix(whole, kept) {
		t.Error("a completed trial was lost or changed")
	}
	run, _, err := store.Load(t.Context(), out)
	must.OK(t, err)
	plan := complete(t, run, blocks)
	for i, trial := range run.Trials {
		if want := study.TrialID(i/plan.BlockSize(), i%plan.BlockSize()); trial.ID != want || trial.Hist == "" {
			t.Errorf("trial %s with histograms %q stands at the place of %s", trial.ID, trial.Hist, want)
		}
	}
	b.gone(t)
}

// testModes has one cell, and thus one set of pods, for each kind of path between the
// pods. TestModes of "verify" crosses the factors.
func (b *bench) testModes(t *testing.T) {
	said := b.measure(t, "modes", `
settings: {sidecars: both, rate: 100, connections: 4, payload: 100B}
variants:
  http1: {}
  http1-closing: {keep_alive: false}
  http2: {protocol: http2}
  grpc: {protocol: grpc}
  tcp: {protocol: tcp}
  tcp-closing: {protocol: tcp, keep_alive: false}
  client: {sidecars: client, mtls: permissive}
  server: {sidecars: server, mtls: permissive}
  plain: {mtls: off}
  logs: {telemetry: access-log-json+stats, concurrency: 1, cpu_limit: 500m, envoy: `+otherEnvoy+`}
factors: {variant: [http1, http1-closing, http2, grpc, tcp, tcp-closing, client, server, plain, logs]}
baseline: {variant: http1}
blocks: {min: 1, max: 1, limit: 20m}
`, 1)
	if !strings.Contains(said, "report: "+filepath.Join(b.dir, "modes")) {
		t.Errorf("the report's place is not told:\n%s", said)
	}
}
