//go:build integration || verify

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
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/drive/load"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/store"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/study/protocol"
	"github.com/meshtrial/meshtrial/testing/eventually"
	"github.com/meshtrial/meshtrial/testing/labtest"
	"github.com/meshtrial/meshtrial/testing/must"
)

// TestMain makes the tests share a lab.
func TestMain(m *testing.M) { os.Exit(labtest.Sharing(m).Run()) }

// bench is a local lab with the program that runs studies in it.
type bench struct {
	program string
	dir     string // for studies and runs of this test
	env     []string
	lab     *local.Lab
	kube    kubernetes.Interface
}

func newBench(t *testing.T) *bench {
	t.Helper()
	return benchIn(t, labtest.Shared)
}

// benchIn returns a bench with the lab from where.
func benchIn(t *testing.T, where func(*testing.T) (labtest.Machine, *local.Lab)) *bench {
	t.Helper()
	m, l := where(t)
	b := &bench{program: m.Program, dir: t.TempDir(), env: m.Env(), lab: l}
	var err error
	if b.kube, err = kubernetes.NewForConfig(b.lab.RESTConfig()); err != nil {
		t.Fatal(err)
	}
	return b
}

// otherEnvoy is a version other than the default one.
const otherEnvoy = labtest.OtherEnvoy

func (b *bench) command(args ...string) *exec.Cmd {
	if len(args) > 0 && args[0] == "run" {
		// Other tests use the machine and the lab at the same time.
		args = append(args, "--limit", "unattributed=100%", "--wait", "20m")
	}
	cmd := exec.Command(b.program, args...)
	cmd.Env, cmd.Dir = b.env, b.dir
	return cmd
}

// going is a run in the background that writes to a folder.
type going struct {
	cmd   *exec.Cmd
	out   string
	said  *bytes.Buffer // read it only after the run has ended
	ended <-chan struct{}
}

// start starts a run in the background.
func (b *bench) start(t *testing.T, out string, args ...string) *going {
	t.Helper()
	cmd := b.command(append([]string{"run"}, args...)...)
	said, ended := labtest.Background(t, cmd)
	return &going{cmd, out, said, ended}
}

// await waits for a condition, which must become true before the run ends.
func (g *going) await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	eventually.Within(t, 5*time.Minute, what, func() bool {
		select {
		case <-g.ended:
			t.Fatalf("the run ended before its time: %s", what)
		default:
		}
		return holds()
	})
}

// trials waits until that many trials are on disk.
func (g *going) trials(t *testing.T, n int) {
	t.Helper()
	g.await(t, fmt.Sprintf("%d trials", n), func() bool {
		data, _ := os.ReadFile(filepath.Join(g.out, store.FileTrials)) // it does not exist at first
		return bytes.Count(data, []byte("\n")) >= n
	})
}

// logged waits until the run's log contains a text.
func (g *going) logged(t *testing.T, text string) {
	t.Helper()
	g.await(t, text, func() bool {
		data, _ := os.ReadFile(filepath.Join(g.out, store.FileLog)) // it does not exist at first
		return strings.Contains(string(data), text)
	})
}

// end sends signals, and waits for the end of the run.
func (g *going) end(t *testing.T, signals ...os.Signal) (code int, said string) {
	t.Helper()
	for _, signal := range signals {
		must.OK(t, g.cmd.Process.Signal(signal))
	}
	<-g.ended
	return g.cmd.ProcessState.ExitCode(), g.said.String()
}

// loaded reads a complete run from disk.
func loaded(t *testing.T, out string) record.Run {
	t.Helper()
	run, notes, err := store.Load(t.Context(), out)
	if err != nil || len(notes) > 0 {
		t.Fatalf("%s: %v, %v", out, err, notes)
	}
	return run
}

func (b *bench) meshtrial(t *testing.T, args ...string) (int, string) {
	t.Helper()
	out, err := b.command(args...).CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), string(out)
	}
	must.OK(t, err)
	return 0, string(out)
}

// short has the settings of studies that check modes rather than figures.
const short = `
warmup: {min: 0s, max: 250ms}
window: 500ms
interval: 100ms
`

// study writes a study file and returns its path.
func (b *bench) study(t *testing.T, name, text string) string {
	t.Helper()
	return b.file(t, name, "name: "+name+"\nquestion: Is each trial what its cell says?\n"+strings.TrimSpace(text)+short)
}

// file writes a whole study file and returns its path.
func (b *bench) file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(b.dir, name+".yaml")
	must.OK(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// measured accepts the exit code of a study on a machine that may be busy: its
// figures may be invalid, which is exit code 4. Only [bench.attempt], which can
// retry, requires a valid trial.
func measured(t *testing.T, code int, out string) {
	t.Helper()
	if code != errs.CodeOK && code != errs.CodeInvalid {
		t.Fatalf("exit code %d\n%s", code, out)
	}
}

// attempts is how often a study is run if the machine stood still.
const attempts = 5

// measure runs a study whose trials must all match their cells, and checks
// them.
func (b *bench) measure(t *testing.T, name, text string, blocks int) (said string) {
	t.Helper()
	said, out := b.attempt(t, b.study(t, name, text))
	verify(t, out, blocks)
	return said
}

// attempt runs a study file of which at least one trial must be valid.
func (b *bench) attempt(t *testing.T, file string, args ...string) (said, out string) {
	t.Helper()
	return b.unspoilt(t, strings.TrimSuffix(filepath.Base(file), ".yaml"), func(out string) string {
		code, said := b.meshtrial(t, append([]string{"run", file, "--out", out}, args...)...)
		measured(t, code, said)
		return said
	})
}

// unspoilt makes a run of which at least one trial must be valid. Trials
// invalidated by a machine that stood still are measured again, in another
// folder; other failures are not retried.
func (b *bench) unspoilt(t *testing.T, name string, measure func(out string) (said string)) (said, out string) {
	t.Helper()
	for attempt := 1; ; attempt++ {
		out = filepath.Join(b.dir, fmt.Sprintf("%s-%d", name, attempt))
		said = measure(out)
		run, _, err := store.Load(t.Context(), out)
		must.OK(t, err)
		invalid := noneValid(run)
		spoilt := spoiltBy(run)
		switch {
		case spoilt == "" && invalid == "":
			return said, out
		case attempt < attempts:
			t.Logf("measured again: %s", spoilt+invalid)
		case invalid != "":
			t.Fatalf("%s\n%s", invalid, said)
		default:
			return said, out
		}
	}
}

// noneValid returns what made each trial invalid, if all are.
func noneValid(run record.Run) string {
	var why []string
	for _, trial := range run.Trials {
		if trial.Validity.Valid {
			return ""
		}
		for _, c := range trial.Validity.Checks {
			if !c.OK {
				why = append(why, trial.ID+" "+c.Name+": "+c.Detail)
			}
		}
	}
	return fmt.Sprintf("none of %d trials is valid: %s", len(run.Trials), strings.Join(why, "; "))
}

// spoiltBy returns the trials whose requests were sent too late for their
// responses to be awaited, and that failed in no other way, and those whose
// schedule ended before a window was determined.
func spoiltBy(run record.Run) string {
	var all []string
	for _, trial := range run.Trials {
		for _, c := range trial.Validity.Checks {
			if c.Name == "carried-through" && strings.Contains(c.Detail, "window of intervals") {
				all = append(all, "trial "+trial.ID+": "+c.Detail)
			}
		}
		if l := trial.Load; l != nil {
			late, failed := l.Unfinished+l.Failed[load.FailTimeout], int64(0)
			for _, n := range l.Failed {
				failed += n
			}
			if late > 0 && failed == l.Failed[load.FailTimeout] {
				all = append(all, fmt.Sprintf("%d of %d requests of trial %s had no answer in time", late, l.Scheduled, trial.ID))
			}
		}
	}
	return strings.Join(all, "; ")
}

// verify checks a finished run: each trial of the plan, its account, its
// histograms, every check that verifies its mode, and findings.
func verify(t *testing.T, out string, blocks int) record.Run {
	t.Helper()
	run := loaded(t, out)
	plan := complete(t, run, blocks)
	for i, trial := range run.Trials {
		name := fmt.Sprintf("trial %s, %s", trial.ID, trial.Cell.Key())
		if want := study.TrialID(i/plan.BlockSize(), i%plan.BlockSize()); trial.ID != want {
			t.Errorf("trial %s stands at the place of %s", trial.ID, want)
		}
		verifyTrial(t, name, trial, run.Hist[trial.ID])
		if before := run.Trials[max(0, i-1)]; trial.Deployment < 1 || before.Block != trial.Block && before.Deployment >= trial.Deployment {
			t.Errorf("%s has pods of deployment %d, the trial before of %d: they are not made anew for each block", name, trial.Deployment, before.Deployment)
		}
	}
	if m := run.Header.Machine; m.CPUs == 0 || m.Kubernetes == "" || !strings.HasPrefix(m.ContainerRun, "containerd ") || len(run.Header.Components) == 0 {
		t.Errorf("the header does not say what was measured: %+v", run.Header)
	}
	findings := readFindings(t, out)
	if len(findings.Cells) != len(plan.Cells) || len(findings.Findings) == 0 {
		t.Errorf("findings of %d cells, %d findings", len(findings.Cells), len(findings.Findings))
	}
	if page, err := os.ReadFile(filepath.Join(out, "report.html")); err != nil || !bytes.Contains(page, []byte("</html>")) {
		t.Errorf("report.html: %d bytes, %v", len(page), err)
	}
	return run
}

// complete checks that a run has each trial of that many blocks, and returns
// its plan.
func complete(t *testing.T, run record.Run, blocks int) *study.Plan {
	t.Helper()
	plan, err := study.NewPlan(mustParse(t, run.StudyYAML), run.Header.Seed)
	must.OK(t, err)
	if err := plan.CheckTrials(run.Trials); err != nil {
		t.Error(err)
	}
	if want := blocks * plan.BlockSize(); len(run.Trials) != want {
		t.Errorf("%d trials, want %d", len(run.Trials), want)
	}
	return plan
}

func verifyTrial(t *testing.T, name string, trial record.Trial, hist record.TrialHist) {
	t.Helper()
	passed := map[string]bool{}
	for _, c := range trial.Validity.Checks {
		passed[c.Name] = true
		if !c.OK && !labtest.OfTheMachine(trial, c) {
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
	if slices.ContainsFunc(trial.Validity.Checks, func(c record.Check) bool { return c.Name == "cpu-edges" && !c.OK }) {
		return // the counters were read late, perhaps after connections had ended
	}
	for _, part := range partsOf(trial.Cell) {
		// The control plane may be idle in such a short window.
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

// sidesOf returns the sides of a cell that have a sidecar.
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
	if cell[study.FactorProtocol] != protocol.TCP {
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

// gone waits until only the given namespaces of runs are left. Whenever the
// namespace controller has found pods, it checks again after half of their
// grace period, on a busy machine perhaps several times.
func (b *bench) gone(t *testing.T, but ...string) {
	t.Helper()
	eventually.Within(t, 5*time.Minute, "no namespace of a run is left", func() bool {
		return !slices.ContainsFunc(b.namespaces(t), func(n string) bool { return !slices.Contains(but, n) })
	})
}

func (b *bench) namespaces(t *testing.T) []string {
	t.Helper()
	list, err := b.kube.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{LabelSelector: "meshtrial.dev/run"})
	must.OK(t, err)
	var out []string
	for _, ns := range list.Items {
		out = append(out, ns.Name)
	}
	return out
}

// readFindings reads the findings of a run.
func readFindings(t *testing.T, out string) record.Findings {
	t.Helper()
	var f record.Findings
	data, err := os.ReadFile(filepath.Join(out, store.FileFindings))
	if err == nil {
		err = json.Unmarshal(data, &f)
	}
	if err != nil {
		t.Fatalf("%s: %v", store.FileFindings, err)
	}
	return f
}

func mustParse(t *testing.T, text []byte) *study.Study {
	t.Helper()
	s, err := study.Parse(text, "resolved.yaml", nil)
	must.OK(t, err)
	return s
}
