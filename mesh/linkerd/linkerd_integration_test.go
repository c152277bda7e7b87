//go:build integration

package linkerd_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/labtest"
	"github.com/meshtrial/meshtrial/testing/must"
)

const twoPods = `
name: linkerd-modes
question: Is every mode the one that its cell names?
mesh: linkerd
settings: {rate: 200, connections: 4, concurrency: 1}
factors:
  sidecars: [none, server, client, both]
  telemetry: ["off", access-log-json]
exclude: [{sidecars: none, telemetry: access-log-json}]
warmup: {min: 0s, max: 500ms}
window: 1s
interval: 100ms
blocks: {min: 1, max: 1}
`

const sick = `
name: linkerd-levers
question: Do Linkerd's levers do what they say?
mesh: linkerd
graph:
  services:
    front: {replicas: 2, calls: [{to: bar, timeout: 3s}]}
    bar: {replicas: 3, service_time: {mean: 5ms}, response: 1KiB, concurrency: 10, queue: 100}
load: {to: front, clients: 2, timeout: 5s}
settings: {rate: 60, arrival: uniform, connections: 4, mtls: strict}
timeline:
  duration: 20s
  steps:
  - {name: sick, at: 3s, for: 6s, worker: {service: bar, pick: 1, set: {failures: [{share: 100%, status: 503}]}}}
variants:
  plain: {}
  retries: {retries: 3}
  ejects: {outlier_detection: "errors=3 ejection=2s"}
blocks: {min: 1, max: 1}
stop: none
expect: {plain: fail}
assert:
- window("sick").error_share < 0.08 # a third of the requests without levers, less where the proxies' balancers find the other endpoints faster
- window("sick.end").error_share < 0.05
- ledger.reconciled
`

// TestLinkerd runs studies against Linkerd's own programs: every mode of the
// data plane is verified by the proxies' counters, and levers by the policy
// controller and by the outcome of requests.
func TestLinkerd(t *testing.T) {
	dir := labtest.Folder(t, "MESHTRIAL_LINKERD")
	m := labtest.New(t)
	m.Up(t, "--mesh", "linkerd", "--linkerd", dir)
	run := func(t *testing.T, text string) record.Findings {
		t.Helper()
		out := filepath.Join(t.TempDir(), "run")
		code, said := m.Run(t, "run", labtest.Study(t, text), "--out", out)
		data, err := os.ReadFile(filepath.Join(out, "findings.json"))
		if err != nil {
			t.Fatalf("exit code %d: %s", code, said)
		}
		var f record.Findings
		must.OK(t, json.Unmarshal(data, &f))
		// Other tests may keep the machine busy, which does not affect what
		// trials verify about the mesh.
		reasons := slices.DeleteFunc(slices.Clone(f.Validity.Reasons), func(r record.InvalidReason) bool {
			return slices.Contains(labtest.AboutTheMachine, r.Check)
		})
		if len(reasons) > 0 || f.Validity.Trials == 0 || f.Validity.Valid < f.Validity.Trials/2 {
			t.Errorf("%d of %d trials are valid: %+v\n%s", f.Validity.Valid, f.Validity.Trials, f.Validity.Reasons, said)
		}
		return f
	}
	t.Run("modes", func(t *testing.T) { run(t, twoPods) })
	t.Run("levers", func(t *testing.T) {
		f := run(t, sick)
		for _, c := range f.Cells {
			s := c.Scenario
			if s == nil || !s.AsExpected || s.LedgerOf != record.LedgerInbound || s.Ledger.Requests == 0 {
				t.Errorf("%s: %s", c.Label, told(s))
				continue
			}
			if strings.Contains(c.Label, "retries") && s.Total.Hidden > 0 {
				t.Errorf("%s: retries at the entry, which does not fail", c.Label)
			}
			if ejected := s.Total.Ejected["bar"]; strings.Contains(c.Label, "ejects") != (ejected > 0) {
				t.Errorf("%s: %d endpoints of bar were taken out", c.Label, ejected)
			}
		}
	})
}

// told formats the result of a scenario, without its series and failures.
func told(s *record.ScenarioSummary) string {
	if s == nil {
		return "no timeline"
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%s, expected %s; ledger of %s, %d requests", s.Verdict, s.Expected, s.LedgerOf, s.Ledger.Requests)
	for _, t := range s.Trials {
		fmt.Fprintf(&out, "\n%s: %s %v", t.Trial, t.Verdict, t.Why)
		for _, a := range t.Assertions {
			fmt.Fprintf(&out, "\n  %s: %s: %s", a.Outcome, a.Expr, a.Detail)
		}
	}
	return out.String()
}
