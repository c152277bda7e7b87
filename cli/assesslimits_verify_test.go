//go:build verify

package cli

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/advise/advice"
	"github.com/meshtrial/meshtrial/testing/labtest"
	"github.com/meshtrial/meshtrial/testing/must"
)

// plantedStudy plants one limit in each cell but the first. It makes few changes, and each cell
// has one trial.
const plantedStudy = `
name: planted
question: Does the first advice name what is planted?
control: {changes: 8, settle: 25s, quiet: 500ms, idle: 1s}
settings: {proxies: 120, services: 80, endpoints: 1, namespaces: 2, change: virtualservice, change_rate: 1}
variants:
  none: {}
  debounce: {debounce_after: 4s}
  throttle: {push_throttle: 1}
  cpu: {istiod_cpu: 200m}
baseline: {variant: none}
blocks: {min: 1, max: 1, limit: 30m}
`

// plantedRules maps each variant to the rule that must name what it plants, or to "" if it plants
// nothing.
var plantedRules = map[string]string{"none": "", "debounce": "debounce_long", "throttle": "throttle",
	"cpu": "cpu_limit"}

// TestAdvicePlanted plants limits in a lab. The first advice must name each of them, and there
// must be no advice where nothing is planted.
func TestAdvicePlanted(t *testing.T) {
	m, _ := labtest.Shared(t)
	run := filepath.Join(t.TempDir(), "run")
	m.Measured(t, "run", labtest.Study(t, plantedStudy), "--out", run)
	out, err := m.Command(t, "assess", "limits", run, "--json").Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var document limitsDocument
	must.OK(t, json.Unmarshal(out, &document))
	seen := 0
	for _, r := range document.Reports {
		want, ok := plantedRules[r.Cell["variant"]]
		if !ok {
			t.Errorf("cell %v", r.Cell)
		}
		seen++
		first := ""
		if len(r.Advice) > 0 {
			first = r.Advice[0].Rule
		}
		if first != want {
			var text strings.Builder
			advice.WriteText(&text, r, true)
			t.Errorf("%v: the first advice is %q, not %q\n%s", r.Cell, first, want, text.String())
			continue
		}
		if want == "" {
			continue
		}
		if steps := r.Advice[0].Try; !slices.ContainsFunc(steps,
			func(s advice.Step) bool { return s.Checked && s.YAML != "" }) {
			t.Errorf("%v: no step was held against istiod's own settings: %+v", r.Cell, steps)
		}
	}
	if seen != len(plantedRules) {
		t.Errorf("%d cells of %d", seen, len(plantedRules))
	}
}
