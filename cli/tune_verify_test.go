//go:build verify

package cli

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/labtest"
)

// tunedStudy has six cells. A Sidecar that leaves proxies almost nothing reduces what is pushed
// to them many times over, however busy the machine is.
const tunedStudy = `
name: tune-small
question: Which of six settings pushes least?
control: {changes: 6, settle: 6s, quiet: 500ms, idle: 500ms}
settings: {proxies: 5, gateways: 1, services: 40, endpoints: 0, virtual_services: 40, gateway_resources: 20,
  change: service+gateway+virtualservice, change_rate: 2, sidecar_hosts: "istio-system/*,prometheus/*"}
factors:
  sidecar_scope: [installed, mesh]
  debounce_after: [installed, 500ms, 2s]
tune: {constraints: ["convergence<=6s"], objectives: [convergence], trials: 8, confirm: 2}
`

// TestTuneOnLab tunes a grid of six cells, chooses the one that pushes least, and compares it
// with istiod as installed. Counts do not depend on how busy the machine is.
func TestTuneOnLab(t *testing.T) {
	m, _ := labtest.Shared(t)
	run := filepath.Join(t.TempDir(), "run")
	any := []string{"--limit", "unattributed=100%", "--limit", "unattributed-busy=100%"}
	code, said := m.Run(t, append([]string{"run", labtest.Study(t, tunedStudy), "--set", "tune.objectives=[pushes]", "--out", run}, any...)...)
	if code != errs.CodeOK && code != errs.CodeInvalid && code != errs.CodeAssertion { // convergence may have any verdict on a busy machine
		t.Fatalf("exit code %d\n%s", code, said)
	}
	out, err := m.Command(t, "report", run, "--format", "json").Output()
	var f record.Findings
	if err := json.Unmarshal(out, &f); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	got := f.Tuning
	if got == nil || got.Grid != 6 || got.Trials > 8 || got.Trials < 4 || got.Stop == "" || strings.Join(got.Objectives, ",") != "pushes" {
		t.Fatalf("the tuning is %+v (%v)\n%s", got, err, said)
	}
	if got.Recommended["sidecar_scope"] != "mesh" || got.Verdict != record.VerdictReal || got.ConfirmBlocks != 2 || got.Confirmed[0].Relative.Estimate > -0.3 {
		t.Errorf("recommended is %v, the comparison says %s of %+v\n%s", got.Recommended, got.Verdict, got.Confirmed, said)
	}
	before := len(f.Cells)
	if code, said := m.Run(t, append([]string{"run", "--resume", run}, any...)...); code != errs.CodeOK && code != errs.CodeInvalid && code != errs.CodeAssertion {
		t.Fatalf("a tuning that is done cannot be gone on with: exit code %d\n%s", code, said)
	}
	out, _ = m.Command(t, "report", run, "--format", "json").Output()
	var again record.Findings
	if err := json.Unmarshal(out, &again); err != nil || again.Validity.Trials != f.Validity.Trials || len(again.Cells) != before {
		t.Errorf("going on with a tuning that is done made %d trials of %d (%v)", again.Validity.Trials, f.Validity.Trials, err)
	}
}
