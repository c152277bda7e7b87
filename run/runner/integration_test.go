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
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/store"
	"github.com/meshtrial/meshtrial/study"
)

// TestRuns runs studies through the program, on one lab; those that mostly wait
// for pods run side by side. Beside them stands a namespace of which nobody knows
// whether its run lives.
func TestRuns(t *testing.T) {
	b := newBench(t)
	t.Run("interrupted, killed, resumed", b.testInterruptions)
	const foreign = "meshtrial-foreign"
	namespaces := b.kube.CoreV1().Namespaces()
	if _, err := namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: foreign, Labels: map[string]string{"meshtrial.dev/run": "foreign"}}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Run("side by side", func(t *testing.T) {
		t.Run("through shared proxies", func(t *testing.T) {
			t.Parallel()
			b.testShared(t)
		})
		t.Run("in a cluster of a stranger", func(t *testing.T) {
			t.Parallel()
			b.testCluster(t, foreign)
		})
		b.testModes(t)
	})
	b.gone(t, foreign)
	if !slices.Contains(b.namespaces(t), foreign) {
		t.Error("a namespace of another run was removed")
	}
	if err := namespaces.Delete(t.Context(), foreign, metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}

// testCluster takes the local lab's kubeconfig as that of any cluster, which
// has a namespace that a run may have left.
func (b *bench) testCluster(t *testing.T, foreign string) {
	file := b.study(t, "cluster", `
settings: {rate: 200, connections: 4}
factors: {sidecars: [none, both]}
blocks: {min: 2, max: 2, limit: 20m}
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
	run := verify(t, out, 2)
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

// testInterruptions ends a run by Ctrl-C, its resumption by kill -9, and
// lets the third attempt finish it. There are trials enough that some are
// still to come however late a signal is.
func (b *bench) testInterruptions(t *testing.T) {
	const blocks = 6
	file, out := b.study(t, "broken", `
mesh: none
settings: {sidecars: none, rate: 200}
factors: {connections: [1, 4]}
baseline: {connections: 1}
blocks: {min: 6, max: 6, limit: 20m}
seed: 11
`), filepath.Join(b.dir, "broken")
	trials := filepath.Join(out, store.FileTrials)
	// attempt sends a signal once so many trials are on disk, and returns
	// what was there when the program had ended.
	attempt := func(count int, signal os.Signal, args ...string) (text string, kept []byte, code int) {
		t.Helper()
		cmd := b.command(append([]string{"run"}, args...)...)
		var output bytes.Buffer
		cmd.Stdout, cmd.Stderr = &output, &output
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		for end := time.Now().Add(5 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
			data, _ := os.ReadFile(trials)
			if bytes.Count(data, []byte("\n")) >= count {
				break
			}
			select {
			case err := <-ended:
				t.Fatalf("ended before its time: %v\n%s", err, &output)
			default:
			}
			if time.Now().After(end) {
				_ = cmd.Process.Kill()
				<-ended
				t.Fatalf("no %d trials in five minutes\n%s", count, &output)
			}
		}
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		<-ended
		kept, err := os.ReadFile(trials)
		if err != nil {
			t.Fatal(err)
		}
		return output.String(), kept, cmd.ProcessState.ExitCode()
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
	if err != nil {
		t.Fatal(err)
	}
	if kept := second[:bytes.LastIndexByte(second, '\n')+1]; !bytes.HasPrefix(whole, kept) {
		t.Error("a completed trial was lost or changed")
	}
	loaded, _, err := store.Load(t.Context(), out)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := study.NewPlan(mustParse(t, loaded.StudyYAML), 11)
	if err != nil {
		t.Fatal(err)
	}
	if err := plan.CheckTrials(loaded.Trials); err != nil || len(loaded.Trials) != blocks*plan.BlockSize() {
		t.Errorf("%d trials, want %d; %v", len(loaded.Trials), blocks*plan.BlockSize(), err)
	}
	for i, trial := range loaded.Trials {
		if want := study.TrialID(i/plan.BlockSize(), i%plan.BlockSize()); trial.ID != want || trial.Hist == "" {
			t.Errorf("trial %s with histograms %q stands at the place of %s", trial.ID, trial.Hist, want)
		}
	}
	b.gone(t)
}

// testModes goes through the levels of every factor that changes what
// passes between the pods, or how.
func (b *bench) testModes(t *testing.T) {
	const once = "\nblocks: {min: 1, max: 1, limit: 20m}\n"
	for _, tt := range []struct{ name, text string }{
		{"protocols", `
settings: {sidecars: both, rate: 100, connections: 4, payload: 100B}
factors: {protocol: [http1, http2, grpc, tcp], keep_alive: [true, false]}
`},
		{"tls", `
settings: {sidecars: both, rate: 50, connections: 4, payload: 100B}
factors: {protocol: [http1, http2, grpc, tcp], keep_alive: [true, false]}
load: {tls: true}
`},
		{"mtls", `
settings: {rate: 100, connections: 4}
factors: {mtls: [strict, permissive, off], sidecars: [client, server, both]}
exclude: [{mtls: strict, sidecars: server}]
`},
		{"proxies", `
settings: {sidecars: both, rate: 100, connections: 4, concurrency: 1, cpu_limit: 500m, envoy: ` + otherEnvoy + `}
factors: {telemetry: [off, access-log-text, access-log-json, access-log-text+stats, access-log-json+stats]}
`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if said := b.measure(t, tt.name, tt.text+once, 1); !strings.Contains(said, "report: "+filepath.Join(b.dir, tt.name)) {
				t.Errorf("the report's place is not told:\n%s", said)
			}
		})
	}
}
