//go:build verify

package runner_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/store"
)

// TestSoak runs the shipped soak for some minutes: one istiod and one sidecar live
// through all of its windows, each window has its figures, and each figure its slope.
func TestSoak(t *testing.T) {
	b := newBench(t)
	out := filepath.Join(b.dir, "soak")
	shorter := []string{"--set", "blocks.min=18", "--set", "blocks.max=18", "--set", "blocks.limit=1h", "--set", "control.duration=4s", "--set", "proxies=20", "--set", "services=20"}
	code, said := b.meshtrial(t, append([]string{"run", "soak", "--out", out}, shorter...)...)
	measured(t, code, said)
	run, notes, err := store.Load(t.Context(), out)
	if err != nil || len(notes) > 0 || len(run.Trials) != 18 {
		t.Fatalf("%d windows, %v, %v:\n%s", len(run.Trials), notes, err, said)
	}
	first, valid := run.Trials[0].Control, 0
	for _, trial := range run.Trials {
		c := trial.Control
		if c == nil || c.Life == "" || c.Life != first.Life || c.SidecarLife == "" || c.SidecarLife != first.SidecarLife {
			t.Errorf("window %s is of life %+v, the first of %s", trial.ID, c, first.Life)
			continue
		}
		if c.LiveBytes <= 0 || c.LiveBytes > 4*c.HeapBytes || trial.Memory[record.PartControl].PSSBytes <= 0 || trial.Memory[record.PartServerProxy].PSSBytes <= 0 {
			t.Errorf("window %s: %d bytes live of %d in use, %+v", trial.ID, c.LiveBytes, c.HeapBytes, trial.Memory)
		}
		if trial.Validity.Valid {
			valid++
		}
	}
	f := readFindings(t, out)
	if f.Soak == nil || f.Soak.Lives != 1 || f.Soak.Windows != valid || len(f.Soak.Growths) != 5 || f.Soak.LimitBytes == 0 {
		t.Fatalf("%d valid windows: %+v", valid, f.Soak)
	}
	for _, x := range f.Findings {
		if strings.HasSuffix(x.Name, "_slope") && (x.Verdict == record.VerdictInvalid || x.Blocks == 0) {
			t.Errorf("%+v", x)
		}
	}
	if !strings.Contains(said, "What grew in") || !strings.Contains(said, "One istiod lived through") {
		t.Errorf("the report does not say what grew:\n%s", said)
	}
	b.undone(t)
}
