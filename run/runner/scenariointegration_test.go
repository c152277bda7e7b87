//go:build integration

package runner_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/kinds/resilience/findings"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/store"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/labtest"
	"github.com/meshtrial/meshtrial/testing/must"
)

const shortScenario = `
name: short-scenario
question: Does every kind of step work?
story: One service, of which one server goes, and a configuration that harms.
graph:
  services:
    bar: {replicas: 3, service_time: {mean: 5ms}, response: 1KiB, concurrency: 10, queue: 100}
load: {to: bar, clients: 2, timeout: 3s}
settings: {rate: 100, arrival: poisson, connections: 2}
timeline:
  duration: 16s
  steps:
  - {name: quick, at: 500ms, every: 250ms, times: 4, for: 120ms, worker: {service: bar, set: {service_time: {mean: 6ms}}}}
  - {name: gone, at: 2s, remove: {service: bar, replicas: 1}}
  - name: harm
    at: 4s
    for: 8s # long enough to be felt, however late the proxies are told
    config:
      apply: |
        apiVersion: networking.istio.io/v1
        kind: VirtualService
        metadata: {name: harm}
        spec:
          hosts: [bar]
          http:
          - fault: {abort: {percentage: {value: 50}, httpStatus: 418}}
            route: [{destination: {host: bar}}]
  - {name: reaction, at: 3s, when: error_share > 0.2, worker: {service: bar, set: {service_time: {mean: 6ms}}}}
  - {name: sale, at: 13s, for: 1s, load: {rate: 200}}
blocks: {min: 1, max: 1}
stop: none
assert:
- window("gone").failed == 0
- window("harm").failed > 0
- window("reaction").failed > 0
- ledger.reconciled
`

// TestScenario executes a short timeline on a real lab: every step takes effect
// on time, every request is accounted for, and nothing is left behind.
func TestScenario(t *testing.T) {
	b := newBench(t)
	// Enough recorded service times that the workers read their behaviour from a
	// file.
	var values []string
	for i := range 2000 {
		values = append(values, fmt.Sprintf("%.3fms", 4.9+float64(i%200)/1000))
	}
	text := strings.Replace(shortScenario, "{mean: 5ms}", "{distribution: recorded, values: ["+strings.Join(values, ", ")+"]}", 1)
	path, out := b.file(t, "short-scenario", text), filepath.Join(b.dir, "scenario")
	code, text := b.meshtrial(t, "run", path, "--out", out)
	run, _, err := store.Load(t.Context(), out)
	if err != nil {
		t.Fatalf("%v, exit code %d:\n%s", err, code, text)
	}
	if len(run.Trials) != 1 || run.Trials[0].Scenario == nil {
		t.Fatalf("%d trials:\n%s", len(run.Trials), text)
	}
	trial := &run.Trials[0]
	for _, c := range trial.Validity.Checks {
		if !c.OK && !labtest.OfTheMachine(*trial, c) {
			t.Errorf("%s: %s", c.Name, c.Detail)
		}
	}
	verifySteps(t, run.Events, trial)
	s, err := study.Parse(run.StudyYAML, "resolved.yaml", nil)
	must.OK(t, err)
	book, err := findings.BookOf(&run, s, trial)
	must.OK(t, err)
	account := book.Account()
	if !account.Reconciled || account.Requests != trial.Scenario.Scheduled || account.Requests < 1000 {
		t.Errorf("%d requests, %d scheduled, reconciled: %v, %v", account.Requests, trial.Scenario.Scheduled, account.Reconciled, account.Unreconciled)
	}
	if trial.Scenario.Failed["status"] == 0 {
		t.Error("the configuration that harms did no harm")
	}
	for _, part := range []string{"bar.worker", "bar.proxy", "clients.worker", "clients.proxy", "control_plane", "machine"} {
		if trial.Scenario.CPU[part].TotalS() <= 0 {
			t.Errorf("%s used no CPU", part)
		}
	}
	b.gone(t)
}

// starved is how late a step begins if the machine has no CPU for the runner. The steps of
// shortScenario then overlap, and one may rightly find another's behaviour in force.
const starved = time.Second

// verifySteps requires every step to be begun and proven within its bounds.
func verifySteps(t *testing.T, events []record.Event, trial *record.Trial) {
	t.Helper()
	ops := map[string]bool{}
	overlap := slices.ContainsFunc(events, func(e record.Event) bool { return time.Duration(e.SentNS-e.PlannedNS) > starved })
	for _, e := range events {
		ops[e.Step+" "+e.Op] = true
		if e.Error != "" {
			if overlap && e.Op == "worker" {
				t.Logf("step %s, not judged: %s", e.Step, e.Error)
				continue
			}
			t.Errorf("step %s, %s: %s", e.Step, e.Op, e.Error)
		}
		if late := time.Duration(e.SentNS - e.PlannedNS); late > 5*time.Millisecond {
			t.Logf("step %s, %s began %v late", e.Step, e.Op, late)
		}
		if begins := !strings.HasPrefix(e.Op, "end "); begins && (e.Proof == "" || e.WatchedNS < e.SentNS) {
			t.Errorf("step %s has no proof: %+v", e.Step, e)
		}
	}
	for _, want := range []string{"gone remove", "harm config", "harm end config", "reaction worker", "quick worker", "quick#4 worker", "quick#4 end worker", "sale load", "sale end load"} {
		if !ops[want] {
			t.Errorf("no event %q, only %v", want, ops)
		}
	}
	went := 0
	for _, p := range trial.Scenario.Pods {
		if p.GoneNS != 0 {
			went++
		}
	}
	if went != 1 {
		t.Errorf("%d pods went, one was to", went)
	}
}
