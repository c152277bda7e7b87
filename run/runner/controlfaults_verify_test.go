//go:build verify

package runner_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/labtest"
	"github.com/meshtrial/meshtrial/testing/must"
)

// Sizes of the trials with faults.
const (
	faultChanges = 12
	faultProxies = 20
)

// faultStudy is a study with a single trial.
const faultStudy = `
name: %s
question: Does every change arrive?
control: {changes: %d, settle: 2m, quiet: 500ms, idle: 100ms, bad_share: 50%%}
settings: {services: 10, proxies: %d, change: service, change_rate: 2%s}
blocks: {min: 1, max: 1}
`

// TestControlFaults disturbs control-plane trials: in each the sidecars reconnect, every change
// is accounted for, and the trial reports what happened.
func TestControlFaults(t *testing.T) {
	b := newBench(t)
	t.Run("istiod dies", func(t *testing.T) { b.testReplicaDies(t, 1) })
	t.Run("a replica dies", func(t *testing.T) { b.testReplicaDies(t, 2) })
	t.Run("the API server stands still, and half of the sidecars read slowly", b.testAPIServerStops)
}

// disturbed runs a study with a single trial. It calls fault after a quarter of the changes, so
// that several seconds of changes remain even if this test notices late, and checks the accounts:
// every change was accepted, and every proxy received it exactly once.
func (b *bench) disturbed(t *testing.T, name, setting string, fault func()) (record.Trial, []record.Event) {
	t.Helper()
	text := fmt.Sprintf(strings.TrimLeft(faultStudy, "\n"), name, faultChanges, faultProxies, setting)
	path, out := b.file(t, name, text), filepath.Join(t.TempDir(), name)
	g := b.start(t, out, path, "--out", out)
	b.changed(t, g, faultChanges/4)
	fault()
	g.end(t)
	run := b.verifyControl(t, out, 1, faultChanges)
	for _, e := range run.Events {
		if e.Error != "" || e.Expected != faultProxies || len(e.Seen.Proxy) != faultProxies {
			t.Errorf("change %d: %d proxies needed it, %d had it, missed by %v, %s", e.Change, e.Expected, len(e.Seen.Proxy), e.Missed, e.Error)
		}
	}
	b.undone(t)
	return run.Trials[0], run.Events
}

// says finds a check of a trial.
func says(t *testing.T, trial record.Trial, name string) record.Check {
	t.Helper()
	i := slices.IndexFunc(trial.Validity.Checks, func(c record.Check) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("nothing was checked of %s: %+v", name, trial.Validity.Checks)
	}
	return trial.Validity.Checks[i]
}

// testReplicaDies kills one of the istiods: its sidecars connect to another, or wait for its
// replacement.
func (b *bench) testReplicaDies(t *testing.T, replicas int) {
	dead := ""
	trial, _ := b.disturbed(t, "replica", fmt.Sprintf(", istiod_replicas: %d", replicas), func() {
		pods, err := b.kube.CoreV1().Pods("istio-system").List(t.Context(), metav1.ListOptions{LabelSelector: "app=istiod"})
		must.OK(t, err)
		// Those replaced by the study's levers may still be terminating.
		stay := slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool { return pod.DeletionTimestamp != nil })
		if len(stay) != replicas {
			t.Fatalf("%d istiods, of %d pods", len(stay), len(pods.Items))
		}
		dead = stay[0].Name
		now := int64(0)
		must.OK(t, b.kube.CoreV1().Pods("istio-system").Delete(t.Context(), dead, metav1.DeleteOptions{GracePeriodSeconds: &now}))
	})
	if c := says(t, trial, "istiod-lived"); c.OK || !strings.Contains(c.Detail, dead+" (restart 0) ended") || trial.Validity.Valid {
		t.Errorf("the trial does not say that %s died: %+v", dead, c)
	}
	lost := int64(0)
	for why, n := range trial.Control.Reconnects {
		if why != "dial" { // dialed in vain before the cluster noticed its absence
			lost += n
		}
	}
	// By chance, one of two has some of the sidecars but not all.
	if c := says(t, trial, "connected"); lost == 0 || (lost >= faultProxies) != (replicas == 1) || c.OK || !strings.HasPrefix(c.Detail, fmt.Sprintf("%d of %[1]d proxies are connected at the end", faultProxies)) {
		t.Errorf("%d streams were lost: %s", lost, c.Detail)
	}
}

// apiServerPause is how long the API server stands still.
const apiServerPause = 10 * time.Second

// testAPIServerStops stops the API server for a while: changes wait, and istiod and the sidecars
// stay connected. Half of the sidecars read slowly, which delays only them.
func (b *bench) testAPIServerStops(t *testing.T) {
	status, err := local.GetStatus(filepath.Dir(b.lab.Kubeconfig()))
	must.OK(t, err)
	pids := labtest.PIDs(status.ID, "kube-apiserver")
	if len(pids) != 1 {
		t.Fatalf("API servers of lab %s: %v", status.ID, pids)
	}
	trial, events := b.disturbed(t, "paused", ", clients: slow-reader", func() {
		must.OK(t, unix.Kill(pids[0], unix.SIGSTOP))
		time.Sleep(apiServerPause)
		must.OK(t, unix.Kill(pids[0], unix.SIGCONT))
	})
	if c := says(t, trial, "api-server"); c.OK || trial.Validity.Valid {
		t.Errorf("the trial does not say that the API server stood still: %+v", c)
	}
	if c := says(t, trial, "istiod-lived"); !c.OK {
		t.Errorf("istiod: %s", c.Detail)
	}
	if lost := trial.Control.Reconnects; len(lost) > 0 {
		t.Errorf("streams were lost: %v", lost)
	}
	c := says(t, trial, "connected")
	if want := fmt.Sprintf("%d of %[1]d proxies are connected at the end, %d of them misbehave on purpose", faultProxies, faultProxies/2); !c.OK || c.Detail != want {
		t.Errorf("connected: %+v", c)
	}
	// Every second sidecar reads slowly.
	var took [2]int64
	for _, e := range events {
		for i, p := range e.Seen.Proxy {
			took[p%2] += e.Seen.AckedUS[i]
		}
	}
	if pairs := int64(faultChanges * faultProxies / 2); took[0]/pairs < took[1]/pairs+100_000 {
		t.Errorf("those that read slowly took %d us on average, the others %d", took[0]/pairs, took[1]/pairs)
	}
}
