//go:build verify

package cli_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/run/detached"
	"github.com/meshtrial/meshtrial/run/store"
	"github.com/meshtrial/meshtrial/testing/eventually"
	"github.com/meshtrial/meshtrial/testing/labtest"
	"github.com/meshtrial/meshtrial/testing/must"
)

const detachedStudy = `
name: alone
question: Does a run go on by itself?
settings: {rate: 100, connections: 2}
factors: {sidecars: [none, both]}
warmup: {min: 1s, max: 3s}
window: 2s
interval: 1s
blocks: {min: 3, max: 3, limit: 20m}
`

// begunRun is a detached run: its name, and the namespace of its Job.
type begunRun struct{ Run, Namespace string }

// detach begins a detached run by a command with --detach and --json, and deletes it at
// the test's end, whatever has become of it.
func detach(t *testing.T, m labtest.Machine, args ...string) (begun begunRun) {
	t.Helper()
	out, err := m.Command(t, args...).Output()
	if err != nil || json.Unmarshal(out, &begun) != nil {
		t.Fatalf("run --detach: %v\n%s", err, out)
	}
	t.Cleanup(func() { m.Run(t, "runs", "delete", begun.Run, "--force") })
	return begun
}

// detachedRuns are a lab's, as `meshtrial runs list` has them.
func detachedRuns(t *testing.T, m labtest.Machine) []detached.Run {
	t.Helper()
	out, err := m.Command(t, "runs", "list", "--json").Output()
	must.OK(t, err)
	var list struct{ Runs []detached.Run }
	must.OK(t, json.Unmarshal(out, &list))
	return list.Runs
}

// TestDetached: a run goes on when the command that began it has ended, and when its pod
// is killed. Two terminals follow it; one of them lets go, and it goes on. Its directory is
// fetched whole, reports all trials, and nothing of it is left in the cluster.
func TestDetached(t *testing.T) {
	m, l := labtest.Shared(t)
	begun := detach(t, m, "run", labtest.Study(t, detachedStudy), "--detach", "--json", "--wait", "20m")
	waitFor(t, "a trial", func() bool { all := detachedRuns(t, m); return len(all) == 1 && all[0].Trials > 0 })

	code, said := m.Run(t, "runs", "fetch", begun.Run, "--to", filepath.Join(t.TempDir(), "early"))
	if code != errs.CodeUsage || !strings.Contains(said, "is in progress") {
		t.Errorf("fetched in the middle: exit code %d\n%s", code, said)
	}
	first, second := m.Command(t, "attach", begun.Run), m.Command(t, "attach")
	firstSaid, firstEnded := labtest.Background(t, first)
	secondSaid, secondEnded := labtest.Background(t, second)

	// The pod is gone without a word. (Its node lives: TestDetachedFaults kills one.)
	labtest.Kubectl(t, l, "", "-n", begun.Namespace, "delete", "pods", "-l", "meshtrial.dev/part=run", "--grace-period=0", "--force")
	waitFor(t, "the next pod", func() bool { all := detachedRuns(t, m); return len(all) == 1 && all[0].Attempts == 2 })
	must.OK(t, first.Process.Signal(unix.SIGINT))
	<-firstEnded
	if code := first.ProcessState.ExitCode(); code != errs.CodeInterrupted || !strings.Contains(firstSaid.String(), "which continues") {
		t.Errorf("detached by Ctrl-C: exit code %d\n%s", code, firstSaid)
	}
	<-secondEnded
	if code := second.ProcessState.ExitCode(); code != errs.CodeOK && code != errs.CodeInvalid { // figures may be invalid on a busy machine
		t.Fatalf("attach: exit code %d\n%s", code, secondSaid)
	}
	for _, want := range []string{"the run's pod was lost", "meshtrial runs fetch " + begun.Run} {
		if !strings.Contains(secondSaid.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, secondSaid)
		}
	}

	if code, said := m.Run(t, "runs", "delete", begun.Run); code != errs.CodeUsage || !strings.Contains(said, "only in the cluster") {
		t.Errorf("removed unfetched: exit code %d\n%s", code, said)
	}
	fetched := filepath.Join(t.TempDir(), "fetched")
	if code, said := m.Run(t, "runs", "fetch", begun.Run, "--to", fetched); code != 0 || !strings.Contains(said, "9 trials of alone") {
		t.Fatalf("fetch: exit code %d\n%s", code, said)
	}
	run, notes, err := store.Load(t.Context(), fetched)
	if err != nil || len(run.Trials) != 9 || len(notes) > 0 {
		t.Errorf("%d trials were fetched, %v, %v", len(run.Trials), notes, err)
	}
	given, err := os.ReadFile(filepath.Join(fetched, store.FileStudy))
	if err != nil || !bytes.Equal(given, []byte(detachedStudy)) {
		t.Errorf("the study as given is lost: %q, %v", given, err)
	}
	if all := detachedRuns(t, m); len(all) != 1 || all[0].State != detached.Completed || !all[0].Fetched || all[0].Trials != 9 || all[0].Attempts != 2 {
		t.Errorf("at the end: %+v", all)
	}
	m.Succeeds(t, "runs", "delete", begun.Run)
	nothingDetached(t, l)
}

// TestDetachedExhausted: a run whose pods were lost too often ends with the next one, which puts
// back what they left, and says why; no other pod is made.
func TestDetachedExhausted(t *testing.T) {
	m, l := labtest.Shared(t)
	begun := detach(t, m, "run", labtest.Study(t, detachedStudy), "--detach", "--json", "--wait", "20m")
	waitFor(t, "the run's pod", func() bool { all := detachedRuns(t, m); return len(all) == 1 && all[0].Attempts == 1 })
	waitFor(t, "the run's namespace", func() bool { return runNamespaces(t, l) != "" })
	killed := 0
	for _, pid := range labtest.PIDs(l.ID(), "") {
		command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // of a process that ended meanwhile there is none
		if strings.Contains(string(command), "\x00detached-run\x00") && unix.Kill(pid, unix.SIGKILL) == nil {
			killed++
		}
	}
	if killed != 1 {
		t.Fatalf("%d processes of the run's pod were killed", killed)
	}
	// As if this had been the last of many. (The Job makes the next pod after 10 s.)
	labtest.Kubectl(t, l, "", "-n", begun.Namespace, "patch", "configmap", "meshtrial-"+begun.Run+"-state", "--type=merge", "-p", `{"data": {"run.json": "{\"attempts\": 1, \"trials\": 0, \"lost\": 4}"}}`)
	const why = " failed: the last 5 pods of the run were killed or evicted before they completed another trial"
	if code, said := m.Run(t, "attach", begun.Run); code != errs.CodeFailure || !strings.Contains(said, "run "+begun.Run+why) {
		t.Errorf("attach: exit code %d\n%s", code, said)
	}
	if all := detachedRuns(t, m); len(all) != 1 || all[0].State != detached.Failed || all[0].Attempts != 2 {
		t.Errorf("at the end: %+v", all)
	}
	if left := runNamespaces(t, l); left != "" {
		t.Errorf("the lost pod's namespaces are left: %s", left)
	}
	if code, said := m.Run(t, "runs", "list"); code != 0 || !strings.Contains(said, "run "+begun.Run+why) {
		t.Errorf("runs list: exit code %d\n%s", code, said)
	}
	m.Succeeds(t, "runs", "delete", begun.Run)
	nothingDetached(t, l)
}

// runNamespaces are those that runs have made and nobody has removed yet.
func runNamespaces(t *testing.T, l *local.Lab) string {
	t.Helper()
	return labtest.Kubectl(t, l, "", "get", "namespaces", "-l", "meshtrial.dev/run", "-o", "jsonpath={.items[?(@.status.phase==\"Active\")].metadata.name}")
}

// nothingDetached wants nothing to be left of detached runs, but what the garbage collector
// has yet to take.
func nothingDetached(t *testing.T, l *local.Lab) {
	t.Helper()
	eventually.Succeeds(t, 2*time.Minute, "nothing detached is left", func() error {
		if left := labtest.Kubectl(t, l, "", "get", "namespaces,jobs,pods,configmaps,secrets,serviceaccounts,roles,rolebindings,clusterroles,clusterrolebindings", "-A", "-l", detached.Label, "-o", "name"); left != "" {
			return errors.New(left)
		}
		return nil
	})
	results, err := l.ResultsDir()
	must.OK(t, err)
	if entries, err := os.ReadDir(results); err != nil || len(entries) > 0 {
		t.Errorf("left of results: %v, %v", entries, err)
	}
	if label := labtest.Kubectl(t, l, "", "get", "namespaces", "meshtrial-journal", "--ignore-not-found", "-o", "jsonpath={.metadata.annotations}"); strings.Contains(label, "reserved") {
		t.Errorf("the journal's namespace stays for nobody: %s", label)
	}
}

// waitFor waits until something is so.
func waitFor(t *testing.T, what string, is func() bool) {
	t.Helper()
	eventually.Within(t, 10*time.Minute, what, is)
}

// TestDetachedDeleted: a run that is at work is removed on request alone, and reverts
// what it has made first.
func TestDetachedDeleted(t *testing.T) {
	m, l := labtest.Shared(t)
	begun := detach(t, m, "run", "quick", "--detach", "--json", "--wait", "20m")
	waitFor(t, "the run's namespace", func() bool { return runNamespaces(t, l) != "" })
	if code, said := m.Run(t, "runs", "delete", begun.Run); code != errs.CodeUsage || !strings.Contains(said, "is in progress") {
		t.Errorf("exit code %d\n%s", code, said)
	}
	m.Succeeds(t, "runs", "delete", begun.Run, "--force")
	nothingDetached(t, l)
	if left := runNamespaces(t, l); left != "" {
		t.Errorf("the run's own namespaces are left: %s", left)
	}
}
