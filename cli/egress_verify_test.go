//go:build verify

package cli_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/store"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/labtest"
	"github.com/meshtrial/meshtrial/testing/must"
)

// shortEgress leaves one block of egress-cost, with new connections only.
var shortEgress = []string{"keep_alive=false", "blocks.min=1", "blocks.max=1"}

// Requests leave the mesh in each way that Istio offers, as the proxies' own counters prove. With a
// planted bypass those of the gateway are found to have gone past it.
func TestEgress(t *testing.T) {
	m, dir := ambientLab(t)
	m.Up(t, "--ztunnel", dir)
	run := egressRun(t, m, shortEgress...)
	for _, trial := range run.Trials {
		faultless(t, trial, nil)
	}
	if want := 2 * 10; len(run.Trials) != want { // nine variants and the second turn of the baseline
		t.Errorf("%d trials, want %d", len(run.Trials), want)
	}

	run = egressRun(t, m, append(slices.Clone(shortEgress), "variant=[bare,sidecar-gateway]", "protocol=http1", "planted=bypass")...)
	past := 0
	for _, trial := range run.Trials {
		if !study.Leaving(trial.Cell) {
			faultless(t, trial, nil)
			continue
		}
		past++
		for _, name := range []string{"egress-bypass", "gateway-requests", "client-requests"} {
			if !slices.ContainsFunc(trial.Validity.Checks, func(c record.Check) bool { return c.Name == name && !c.OK }) || trial.Validity.Valid {
				t.Errorf("trial %s went past the gateway, and check %s did not fail: %+v", trial.ID, name, trial.Validity.Checks)
			}
		}
	}
	if past != 1 {
		t.Errorf("%d trials past the gateway", past)
	}
}

func egressRun(t *testing.T, m labtest.Machine, sets ...string) record.Run {
	t.Helper()
	out := filepath.Join(t.TempDir(), "run")
	args := []string{"run", "egress-cost", "--out", out, "--limit", "unattributed=100%"}
	for _, set := range sets {
		args = append(args, "--set", set)
	}
	m.Measured(t, args...)
	run, _, err := store.Load(t.Context(), out)
	must.OK(t, err)
	return run
}
