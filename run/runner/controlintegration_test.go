//go:build integration

package runner_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/store"
)

// TestControlRun runs a control-plane study through the program.
func TestControlRun(t *testing.T) {
	b := newBench(t)
	_, out := b.attempt(t, b.controlStudy(t, "plain", 3, 1))
	run := b.verifyControl(t, out, 1, 3)
	for _, e := range run.Events {
		if e.Expected != 8 || len(e.Seen.Proxy) != 8 || len(e.Missed) > 0 {
			t.Errorf("change %d: %d proxies needed it, %d had it, %d missed it", e.Change, e.Expected, len(e.Seen.Proxy), len(e.Missed))
		}
		if len(e.Seen.ReceivedUS) == 0 {
			continue
		}
		// Istiod waits 100 ms for more changes, so it cannot be faster. On a
		// busy machine, however, a commit may be noted late, or shortly after
		// the previous one, which the trial's own checks report.
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
}

// soonUS is longer than a change takes even on a very busy machine, in
// microseconds, and shorter than it would be in another unit.
const soonUS = 60_000_000

// inTime reports whether changes were sent, and noted as committed, on time.
func inTime(trial record.Trial) bool {
	return !slices.ContainsFunc(trial.Validity.Checks, func(c record.Check) bool {
		return !c.OK && slices.Contains([]string{"driver-schedule", "api-server", "commits-noted"}, c.Name)
	})
}
