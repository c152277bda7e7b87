//go:build verify

package cli_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/internal/labtest"
	"github.com/meshtrial/meshtrial/kinds/analyses"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/store"
	"github.com/meshtrial/meshtrial/study"
)

const ambientBesideSidecars = `
name: ambient
question: What does ztunnel cost beside sidecars?
settings: {rate: 200, connections: 4}
factors: {sidecars: [none, both, ambient]}
measures: [latency, cpu, memory, threads]
warmup: {min: 1s, max: 3s}
window: 2s
interval: 1s
blocks: {min: 2, max: 2, limit: 20m}
`

// A lab with an ambient mesh runs requests through ztunnel beside pods without a mesh
// and pods with sidecars: proved by ztunnel's counters, with its CPU, memory and
// threads. A lab without one refuses the study before it starts.
func TestAmbient(t *testing.T) {
	dir := os.Getenv("MESHTRIAL_ZTUNNEL")
	if dir == "" {
		t.Skip("MESHTRIAL_ZTUNNEL names no folder with ztunnel")
	}
	m := labtest.New(t)
	file, out := filepath.Join(t.TempDir(), "ambient.yaml"), filepath.Join(t.TempDir(), "run")
	if err := os.WriteFile(file, []byte(ambientBesideSidecars), 0o600); err != nil {
		t.Fatal(err)
	}
	m.Up(t)
	if code, said := m.Run(t, "run", file, "--out", out); code != 2 || !strings.Contains(said, "there is no ambient mesh") {
		t.Fatalf("without an ambient mesh: exit code %d\n%s", code, said)
	}
	if code, said := m.Run(t, "lab", "down"); code != 0 {
		t.Fatal(said)
	}
	l := m.Up(t, "--ztunnel", dir)
	if _, said := m.Run(t, "lab", "status"); !strings.Contains(said, l.Images().Ztunnel) {
		t.Errorf("lab status says nothing of ztunnel:\n%s", said)
	}
	if code, said := m.Run(t, "run", file, "--out", out, "--limit", "unattributed=100%"); code != 0 && code != 4 {
		t.Fatalf("exit code %d\n%s", code, said)
	}
	run, _, err := store.Load(t.Context(), out)
	if err != nil {
		t.Fatal(err)
	}
	carried := 0
	for _, trial := range run.Trials {
		for _, c := range trial.Validity.Checks {
			if !c.OK && (strings.Contains(c.Name, "ztunnel") || strings.Contains(c.Name, "hbone") || strings.Contains(c.Name, "sidecar") || strings.HasSuffix(c.Name, "-present")) {
				t.Errorf("trial %s of %v: %s: %s", trial.ID, trial.Cell, c.Name, c.Detail)
			}
		}
		if !study.Ambient(trial.Cell) {
			continue
		}
		carried++
		if !slices.Equal(trial.Way.Parts(), []string{record.PartNode}) {
			t.Errorf("trial %s went %v", trial.ID, trial.Way)
		}
		part := record.PartNode
		if trial.CPU[part].TotalS() <= 0 || trial.Memory[part].PSSBytes < 1<<20 || len(trial.Threads[part].Threads) == 0 || len(trial.Counters[part]) == 0 {
			t.Errorf("trial %s: ztunnel used %+v, %+v, has %d threads, counted %v", trial.ID, trial.CPU[part], trial.Memory[part], len(trial.Threads[part].Threads), trial.Counters[part])
		}
	}
	if carried != 2 {
		t.Fatalf("%d trials through ztunnel", carried)
	}
	if !slices.ContainsFunc(run.Header.Components, func(c record.Component) bool { return c.Name == "ztunnel" && c.Source == l.Images().Ztunnel }) {
		t.Errorf("the run does not name the ztunnel that it measured: %+v", run.Header.Components)
	}
	f, err := analyses.All().Analyze(run)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"cpu_" + record.PartNode + "_per_request", "memory_" + record.PartNode} {
		if !slices.ContainsFunc(f.Findings, func(x record.Finding) bool { return x.Name == name }) {
			t.Errorf("no finding %s", name)
		}
	}
}
