//go:build integration

package runner_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/store"
	"github.com/meshtrial/meshtrial/testing/labtest"
)

// TestControlRuns runs studies of the control plane through the program, on
// one lab.
func TestControlRuns(t *testing.T) {
	b := newBench(t)
	t.Run("a study", func(t *testing.T) {
		_, out := b.attempt(t, b.controlStudy(t, "plain", 3, 1))
		run := b.verifyControl(t, out, 1, 3)
		for _, e := range run.Events {
			if e.Expected != 8 || len(e.Seen.Proxy) != 8 || len(e.Missed) > 0 {
				t.Errorf("change %d: %d proxies needed it, %d had it, %d missed it", e.Change, e.Expected, len(e.Seen.Proxy), len(e.Missed))
			}
			if len(e.Seen.ReceivedUS) == 0 {
				continue
			}
			// Istiod waits 100 ms for more changes; it cannot be quicker. But where
			// this machine was busy a commit is noted late, or comes close to the
			// one before, which the trial's own checks say.
			quick := e.Seen.ReceivedUS[0] < 50_000 && inTime(run.Trials[0])
			if quick || slices.Max(e.Seen.AckedUS) > soonUS {
				t.Errorf("change %d arrived after %v us, was acknowledged after %v", e.Change, e.Seen.ReceivedUS, e.Seen.AckedUS)
			}
		}
		c := run.Trials[0].Control
		if c.Wire["cds"].Responses == 0 || c.Config["cds"] == 0 || c.Istiod[`pilot_xds_pushes{type="cds"}`] == 0 || len(c.Stages) == 0 {
			t.Errorf("counted %+v, %d bytes of clusters, %d stages", c.Wire, c.Config["cds"], len(c.Stages))
		}
		if j := c.Join; j == nil || j.Namespace != "mm-0" || j.TotalUS <= 0 || j.TotalUS > soonUS || j.Types["cds"].Resources == 0 || j.Types["rds"].Bytes == 0 ||
			c.ScopeConfig["cds"] < c.Config["cds"]/2 || j.Types["cds"].Bytes < c.ScopeConfig["cds"] {
			t.Errorf("one more proxy: %+v, where the others hold %v", j, c.ScopeConfig)
		}
		if profiles, err := filepath.Glob(filepath.Join(out, store.DirProfiles, "b000-t00-istiod-0-cpu.pb.gz")); err != nil || len(profiles) != 1 {
			t.Errorf("profiles: %v, %v", profiles, err)
		}
		b.undone(t)
	})
	t.Run("istiod killed", b.testIstiodKilled)
}

// soonUS is more than the way of a change takes on a machine however busy, in
// microseconds, and less than it would be in another unit.
const soonUS = 60_000_000

// inTime tells whether changes left, and were noted as committed, when they
// should.
func inTime(trial record.Trial) bool {
	return !slices.ContainsFunc(trial.Validity.Checks, func(c record.Check) bool {
		return !c.OK && slices.Contains([]string{"driver-schedule", "api-server", "commits-noted"}, c.Name)
	})
}

// testIstiodKilled kills istiod between two changes: sidecars come back,
// every change is accounted for, and the trial says what happened.
func (b *bench) testIstiodKilled(t *testing.T) {
	out := filepath.Join(b.dir, "killed-istiod")
	cmd := b.command("run", b.controlStudy(t, "killed-istiod", 12, 1), "--out", out)
	text, ended := labtest.Background(t, cmd) // the trial is not valid
	defer func() {
		if t.Failed() {
			_ = cmd.Process.Kill()
			<-ended
			t.Logf("%s", text)
		}
	}()
	b.changed(t, 3, ended)
	now := int64(0)
	if err := b.kube.CoreV1().Pods("istio-system").DeleteCollection(t.Context(), metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{LabelSelector: "app=istiod"}); err != nil {
		t.Fatal(err)
	}
	<-ended
	run := b.verifyControl(t, out, 1, 12)
	trial := run.Trials[0]
	if trial.Validity.Valid {
		t.Errorf("the trial counts as valid:\n%s", text)
	}
	lived := slices.IndexFunc(trial.Validity.Checks, func(c record.Check) bool { return c.Name == "istiod-lived" })
	if lived < 0 || trial.Validity.Checks[lived].OK || !strings.Contains(trial.Validity.Checks[lived].Detail, "ended") || !strings.Contains(trial.Validity.Checks[lived].Detail, "came") {
		t.Errorf("the trial does not say that istiod died: %+v", trial.Validity.Checks)
	}
	lost := int64(0)
	for _, n := range trial.Control.Reconnects {
		lost += n
	}
	if lost < 8 {
		t.Errorf("%d streams were lost: %v", lost, trial.Control.Reconnects)
	}
	for _, e := range run.Events {
		if len(e.Missed) > 0 || e.Error != "" {
			t.Errorf("change %d: missed by %v, %s", e.Change, e.Missed, e.Error)
		}
	}
	b.undone(t)
}
