//go:build verify

package cli_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/kinds/resilience/findings"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/store"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/labtest"
	"github.com/meshtrial/meshtrial/testing/must"
)

// Under load, ztunnel is killed, by a signal and by lack of memory, and replaced; a waypoint is
// killed, and removed. Each fault is proved, and requests flow through the proxies before and
// after it. The ledger of clients and workers accounts for each request. Afterwards ztunnel's
// DaemonSet is as before, with a process that was not killed. The missing waypoint is the study's
// planted defect: it must fail.
func TestAmbientFaults(t *testing.T) {
	dir := os.Getenv("MESHTRIAL_ZTUNNEL")
	if dir == "" {
		t.Skip("MESHTRIAL_ZTUNNEL names no folder with ztunnel")
	}
	m := labtest.New(t)
	l := m.Up(t, "--ztunnel", dir)
	state := func(what string) string {
		return strings.TrimSpace(labtest.Kubectl(t, l, "", "-n", "istio-system", "get", "daemonset", "ztunnel", "-o", "jsonpath="+what))
	}
	const template = "{.spec.template.metadata.annotations}"
	was := state(template)
	for variant, seconds := range map[string]string{"ztunnel-killed": "20s", "ztunnel-oom": "20s", "ztunnel-restarted": "42s", "waypoint-killed": "20s", "waypoint-away": "20s"} {
		ends := []int{0, 3, 4}
		sets := []string{"timeline.duration=" + seconds, "expect={}"}
		if variant == "waypoint-away" {
			ends, sets = []int{0, 4}, sets[:1] // an unexpected verdict exits with 3
		}
		faultRun(t, m, variant, ends, sets...)
		if now := state(template); now != was {
			t.Errorf("%s: the DaemonSet's pods have the annotations %s, and had %s", variant, now, was)
		}
		if restarts := labtest.Kubectl(t, l, "", "-n", "istio-system", "get", "pods", "-l", "app=ztunnel", "-o", "jsonpath={.items[*].status.containerStatuses[*].restartCount}"); strings.TrimSpace(restarts) != "0" {
			t.Errorf("%s: ztunnel's container was started anew %s times, and the next trial would find it so", variant, restarts)
		}
	}
}

// faultRun runs a variant of ambient-faults, which may end with one of the given exit codes, and
// checks its trial.
func faultRun(t *testing.T, m labtest.Machine, variant string, ends []int, sets ...string) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "run")
	args := []string{"run", "ambient-faults", "--out", out, "--set", "variant=" + variant, "--limit", "unattributed=100%"}
	for _, set := range sets {
		args = append(args, "--set", set)
	}
	code, said := m.Run(t, args...)
	if !slices.Contains(ends, code) {
		t.Fatalf("%s: exit code %d\n%s", variant, code, said)
	}
	run, _, err := store.Load(t.Context(), out)
	if err != nil || len(run.Trials) != 1 || run.Trials[0].Scenario == nil {
		t.Fatalf("%s: %d trials, %v", variant, len(run.Trials), err)
	}
	afterFault(t, run, variant)
}

// afterFault checks a trial with one step that affects what carries requests.
func afterFault(t *testing.T, run record.Run, variant string) {
	t.Helper()
	trial := &run.Trials[0]
	for _, e := range run.Events {
		t.Logf("%s: %s, %s %s: %s%s", variant, e.Step, e.Op, e.Object, e.Proof, e.Error)
		if e.Error != "" || !strings.HasPrefix(e.Op, "end ") && e.Proof == "" {
			t.Errorf("%s: step %s is not proved: %+v", variant, e.Step, e)
		}
		if variant == "ztunnel-oom" && !strings.HasPrefix(e.Op, "end ") && !strings.Contains(e.Proof, "the kernel counted 1 OOM kills") {
			t.Errorf("%s: the proof does not name the kernel: %s", variant, e.Proof)
		}
	}
	var names []string
	for _, c := range trial.Validity.Checks {
		names = append(names, c.Name)
		if !c.OK && !ofBusyMachine(c) && !labtest.OfTheMachine(*trial, c) {
			t.Errorf("%s: %s: %s", variant, c.Name, c.Detail)
		}
	}
	wanted := []string{"bar-client-ztunnel", "bar-client-hbone", "bar-server-hbone", "bar-server-ztunnel-bytes", "bar-server-hbone-afterwards"}
	waypoint := strings.HasPrefix(variant, "waypoint-")
	switch {
	case waypoint:
		wanted = append(wanted, "bar-waypoint-present", "bar-waypoint-requests")
	case strings.HasPrefix(variant, "ztunnel-") && variant != "ztunnel-restarted": // the old ztunnel may not have ended
		wanted = append(wanted, "bar-client-ztunnel-bytes-afterwards", "bar-server-ztunnel-bytes-afterwards")
	}
	for _, want := range wanted {
		if !slices.Contains(names, want) {
			t.Errorf("%s: no check %s, but %q", variant, want, names)
		}
	}
	s := trial.Scenario
	t.Logf("%s: %d requests, %d answered, failed %v, %d unfinished", variant, s.Scheduled, s.Completed, s.Failed, s.Unfinished)
	if s.Ledger != record.LedgerEnds || s.NodeProxies < 1 || s.NodeProxies > 1 && variant != "node-drained" || s.CPU[record.PartNode].TotalS() <= 0 || s.Memory[record.PartNode] < 1<<20 || s.Completed == 0 {
		t.Errorf("%s: the ledger is of %q, %d ztunnels used %+v and have %d bytes, %d requests were answered", variant, s.Ledger, s.NodeProxies, s.CPU[record.PartNode], s.Memory[record.PartNode], s.Completed)
	}
	if waypoint && (s.CPU[record.PartWaypoint].TotalS() <= 0 || s.Memory[record.PartWaypoint] < 1<<20) {
		t.Errorf("%s: the waypoint used %+v and has %d bytes", variant, s.CPU[record.PartWaypoint], s.Memory[record.PartWaypoint])
	}
	if variant != "ztunnel-restarted" && variant != "node-drained" && s.Scheduled == s.Completed {
		t.Errorf("%s: a process that carries requests ended, and none was lost", variant)
	}
	parsed, err := study.Parse(run.StudyYAML, "resolved.yaml", nil)
	must.OK(t, err)
	book, err := findings.BookOf(&run, parsed, trial)
	must.OK(t, err)
	account := book.Account()
	if !account.Reconciled || account.Requests != s.Scheduled {
		t.Errorf("%s: %d of %d requests are in the account, reconciled %v: %+v", variant, account.Requests, s.Scheduled, account.Reconciled, account.Unreconciled)
	}
}
