//go:build integration

package runner_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
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
	"k8s.io/client-go/kubernetes"

	"github.com/meshmark/meshmark/errs"
	"github.com/meshmark/meshmark/internal/labtest"
	"github.com/meshmark/meshmark/lab/local"
	"github.com/meshmark/meshmark/record"
	"github.com/meshmark/meshmark/store"
	"github.com/meshmark/meshmark/study"
)

// bench is a local lab of this test's own, and the program that runs studies
// in it.
type bench struct {
	program string
	dir     string // for studies and runs
	env     []string
	lab     *local.Lab
	kube    kubernetes.Interface
}

func newBench(t *testing.T) *bench {
	t.Helper()
	m := labtest.New(t)
	b := &bench{program: m.Program, dir: m.Dir, env: os.Environ(), lab: m.Up(t, "--envoy", otherEnvoy)}
	var err error
	if b.kube, err = kubernetes.NewForConfig(b.lab.RESTConfig()); err != nil {
		t.Fatal(err)
	}
	return b
}

// otherEnvoy is a version beside the default one.
const otherEnvoy = "1.39.0"

func (b *bench) command(args ...string) *exec.Cmd {
	cmd := exec.Command(b.program, args...)
	cmd.Env, cmd.Dir = b.env, b.dir
	return cmd
}

func (b *bench) meshmark(t *testing.T, args ...string) (int, string) {
	t.Helper()
	out, err := b.command(args...).CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), string(out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return 0, string(out)
}

// short are the settings of studies that look at modes, not at figures.
const short = `
warmup: {min: 0s, max: 250ms}
window: 500ms
interval: 100ms
`

// study writes a study file and returns its path.
func (b *bench) study(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(b.dir, name+".yaml")
	text = "name: " + name + "\nquestion: Is each trial what its cell says?\n" + strings.TrimSpace(text) + short
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// measured is the outcome of a study on a machine that may be busy: figures
// may be invalid there, which is exit code 4.
func measured(t *testing.T, code int, out string) {
	t.Helper()
	if code != errs.CodeOK && code != errs.CodeInvalid {
		t.Fatalf("exit code %d\n%s", code, out)
	}
}

// aboutTheMachine are checks that fail where the machine is busy, whatever
// the mesh does.
var aboutTheMachine = []string{"schedule-lag", "generator-cpu", "cpu-edges"}

// verify checks all that a finished run must have: each trial of the plan,
// its account, its histograms, its mode proven by every check that is about
// it, and findings.
func verify(t *testing.T, out string, blocks int) record.Run {
	t.Helper()
	run, notes, err := store.Load(t.Context(), out)
	if err != nil {
		t.Fatal(err)
	}
	if len(notes) > 0 {
		t.Errorf("notes: %q", notes)
	}
	s, err := study.Parse(run.StudyYAML, "resolved.yaml", nil)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := study.NewPlan(s, run.Header.Seed)
	if err != nil {
		t.Fatal(err)
	}
	if err := plan.CheckTrials(run.Trials); err != nil {
		t.Error(err)
	}
	if want := blocks * plan.BlockSize(); len(run.Trials) != want {
		t.Errorf("%d trials, want %d", len(run.Trials), want)
	}
	for i, trial := range run.Trials {
		name := fmt.Sprintf("trial %s, %s", trial.ID, trial.Cell.Key())
		if want := study.TrialID(i/plan.BlockSize(), i%plan.BlockSize()); trial.ID != want {
			t.Errorf("trial %s stands at the place of %s", trial.ID, want)
		}
		verifyTrial(t, name, trial, run.Hist[trial.ID])
	}
	if run.Header.Machine.CPUs == 0 || len(run.Header.Components) == 0 {
		t.Errorf("the header does not say what was measured: %+v", run.Header)
	}
	findings, err := store.ReadFindings(out)
	if err != nil {
		t.Fatal(err)
	}
	if len(findings.Cells) != len(plan.Cells) || len(findings.Findings) == 0 {
		t.Errorf("findings of %d cells, %d findings", len(findings.Cells), len(findings.Findings))
	}
	if page, err := os.ReadFile(filepath.Join(out, "report.html")); err != nil || !bytes.Contains(page, []byte("</html>")) {
		t.Errorf("report.html: %d bytes, %v", len(page), err)
	}
	return run
}

func verifyTrial(t *testing.T, name string, trial record.Trial, hist record.TrialHist) {
	t.Helper()
	passed := map[string]bool{}
	for _, c := range trial.Validity.Checks {
		passed[c.Name] = true
		if !c.OK && !slices.Contains(aboutTheMachine, c.Name) {
			t.Errorf("%s: %s: %s", name, c.Name, c.Detail)
		}
	}
	for _, want := range checksOf(trial.Cell) {
		if !passed[want] {
			t.Errorf("%s: nothing was checked of %s", name, want)
		}
	}
	l := trial.Load
	if l == nil || l.Completed == 0 {
		t.Errorf("%s completed nothing: %+v", name, l)
		return
	}
	failed := int64(0)
	for _, n := range l.Failed {
		failed += n
	}
	if l.Scheduled != l.Completed+failed+l.Unfinished {
		t.Errorf("%s: the account does not balance: %+v", name, l)
	}
	if hist.Intended == nil || hist.Intended.TotalCount() != l.Completed || hist.Send.TotalCount() != l.Completed {
		t.Errorf("%s: the histograms do not hold the %d requests", name, l.Completed)
	}
	for _, part := range partsOf(trial.Cell) {
		if slices.ContainsFunc(trial.Validity.Checks, func(c record.Check) bool { return c.Name == "cpu-edges" && !c.OK }) {
			break // the counters were not read when they should have been
		}
		// The control plane may not run at all in so short a window.
		if cpu, ok := trial.CPU[part]; !ok || cpu.TotalS() <= 0 && part != record.PartControl {
			t.Errorf("%s: no CPU of %s", name, part)
		}
		if part != record.PartMachine && trial.Memory[part].PSSBytes <= 0 {
			t.Errorf("%s: no memory of %s", name, part)
		}
	}
	for _, pod := range []string{record.PartGenerator, record.PartWorker} {
		if trial.Connections[pod].Established == 0 {
			t.Errorf("%s: no connections of the pod of the %s", name, pod)
		}
	}
}

// sides of a cell that have a sidecar.
func sidesOf(cell record.Cell) []string {
	return map[string][]string{"client": {"client"}, "server": {"server"}, "both": {"client", "server"}}[cell[study.FactorSidecars]]
}

// checksOf lists the checks that a trial of a cell must have.
func checksOf(cell record.Cell) []string {
	names := []string{"account", "served", "cpu-edges", "client-sidecar", "server-sidecar"}
	for _, side := range sidesOf(cell) {
		names = append(names, side+"-requests", side+"-concurrency", side+"-access-log", side+"-cpu-limit", side+"-log-format", side+"-stats")
		if cell[study.FactorEnvoy] != study.EnvoyDefault {
			names = append(names, side+"-envoy")
		}
		if side == "server" {
			names = append(names, "tls-handshakes")
		}
	}
	if cell[study.FactorProtocol] != study.ProtocolTCP {
		names = append(names, "worker-requests")
	}
	return names
}

func partsOf(cell record.Cell) []string {
	parts := []string{record.PartGenerator, record.PartWorker, record.PartControl, record.PartMachine}
	for _, side := range sidesOf(cell) {
		parts = append(parts, side+"_proxy")
	}
	return parts
}

// gone waits until no run's namespace is left but those named.
func (b *bench) gone(t *testing.T, but ...string) {
	t.Helper()
	var left []string
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if left = slices.DeleteFunc(b.namespaces(t), func(n string) bool { return slices.Contains(but, n) }); len(left) == 0 {
			return
		}
	}
	t.Errorf("namespaces left: %v", left)
}

func (b *bench) namespaces(t *testing.T) []string {
	t.Helper()
	list, err := b.kube.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{LabelSelector: "meshmark.dev/run"})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, ns := range list.Items {
		out = append(out, ns.Name)
	}
	return out
}

// TestRuns runs studies through the program, on one lab.
func TestRuns(t *testing.T) {
	b := newBench(t)
	const tiny = `
settings: {rate: 200, connections: 4}
factors: {sidecars: [none, both]}
blocks: {min: 2, max: 2, limit: 2m}
`
	t.Run("a study", func(t *testing.T) {
		out := filepath.Join(b.dir, "tiny")
		code, text := b.meshmark(t, "run", b.study(t, "tiny", tiny), "--out", out)
		measured(t, code, text)
		verify(t, out, 2)
		if !strings.Contains(text, "report: "+filepath.Join(out, "report.html")) {
			t.Errorf("the report's place is not told:\n%s", text)
		}
		b.gone(t)
	})
	t.Run("the same in a cluster of a stranger", func(t *testing.T) { b.testCluster(t, tiny) })
	t.Run("interrupted, killed, resumed", b.testInterruptions)
	t.Run("every mode", b.testModes)
}

// testCluster takes the local lab's kubeconfig as that of any cluster.
// Beside the run stands a namespace of which nobody knows whether its run
// lives.
func (b *bench) testCluster(t *testing.T, text string) {
	const foreign = "meshmark-foreign"
	_, err := b.kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: foreign, Labels: map[string]string{"meshmark.dev/run": "foreign"}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(b.dir, "cluster")
	cmd := b.command("run", b.study(t, "cluster", text), "--out", out, "--json", "--lab", "cluster", "--image", b.lab.Images().Meshmark)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + b.dir, "KUBECONFIG=" + b.lab.Kubeconfig()}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	measured(t, cmd.ProcessState.ExitCode(), stderr.String())
	run := verify(t, out, 2)
	if run.Header.Lab != "cluster" {
		t.Errorf("the lab is called %q", run.Header.Lab)
	}
	var findings record.Findings
	if err := json.Unmarshal(stdout.Bytes(), &findings); err != nil || len(findings.Findings) == 0 {
		t.Errorf("--json printed %d bytes: %v", stdout.Len(), err)
	}
	if !strings.Contains(stderr.String(), "kubectl delete namespace "+foreign) {
		t.Errorf("no warning of namespace %s:\n%s", foreign, &stderr)
	}
	b.gone(t, foreign)
	if !slices.Contains(b.namespaces(t), foreign) {
		t.Error("a namespace of another run was removed")
	}
	if err := b.kube.CoreV1().Namespaces().Delete(t.Context(), foreign, metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}

// testInterruptions ends a run by Ctrl-C, its resumption by kill -9, and
// lets the third attempt finish it.
func (b *bench) testInterruptions(t *testing.T) {
	file, out := b.study(t, "broken", `
mesh: none
settings: {sidecars: none, rate: 200}
factors: {connections: [1, 4]}
baseline: {connections: 1}
blocks: {min: 3, max: 3, limit: 2m}
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
		for end := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
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
				t.Fatalf("no %d trials in two minutes\n%s", count, &output)
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
	if _, err := store.ReadFindings(out); err != nil {
		t.Errorf("what an interrupted run has found: %v", err)
	}
	b.gone(t)
	_, second, code := attempt(bytes.Count(first, []byte("\n"))+2, syscall.SIGKILL, "--resume", out)
	if code != -1 || !bytes.HasPrefix(second, first) {
		t.Errorf("after kill -9: exit code %d, the first attempt's trials kept: %v", code, bytes.HasPrefix(second, first))
	}
	if left := b.namespaces(t); len(left) != 1 {
		t.Errorf("after kill -9 there are namespaces %v", left)
	}
	code, text = b.meshmark(t, "run", "--resume", out)
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
	if err := plan.CheckTrials(loaded.Trials); err != nil || len(loaded.Trials) != 3*plan.BlockSize() {
		t.Errorf("%d trials, want %d; %v", len(loaded.Trials), 3*plan.BlockSize(), err)
	}
	for i, trial := range loaded.Trials {
		if want := study.TrialID(i/plan.BlockSize(), i%plan.BlockSize()); trial.ID != want || trial.Hist == "" {
			t.Errorf("trial %s with histograms %q stands at the place of %s", trial.ID, trial.Hist, want)
		}
	}
	b.gone(t)
}

func mustParse(t *testing.T, text []byte) *study.Study {
	t.Helper()
	s, err := study.Parse(text, "resolved.yaml", nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// testModes goes through the levels of every factor that changes what
// passes between the pods, or how.
func (b *bench) testModes(t *testing.T) {
	const once = "\nblocks: {min: 1, max: 1, limit: 1m}\n"
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
			out := filepath.Join(b.dir, tt.name)
			code, text := b.meshmark(t, "run", b.study(t, tt.name, tt.text+once), "--out", out)
			measured(t, code, text)
			verify(t, out, 1)
		})
	}
	b.gone(t)
}
