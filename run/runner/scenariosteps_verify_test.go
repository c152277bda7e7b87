//go:build verify

package runner_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/kinds/analyses"
	"github.com/meshtrial/meshtrial/kinds/resilience"
	"github.com/meshtrial/meshtrial/kinds/resilience/findings"
	"github.com/meshtrial/meshtrial/observe/ledger"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/store"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/labtest"
	"github.com/meshtrial/meshtrial/testing/must"
)

// roughScenario has every step that acts on processes and packets, with levers
// that other scenarios leave at their defaults.
const roughScenario = `
name: rough
question: Does every step on processes and packets do what it says?
story: Processes are paused and killed, packets cut off, lost, delayed and held back.
graph:
  services:
    front: {replicas: 2, service_time: {mean: 1ms}, calls: [{to: bar, timeout: 1s}]}
    bar: {replicas: 3, service_time: {mean: 5ms}, response: 1KiB, concurrency: 10, queue: 100}
load: {to: front, clients: 2, timeout: 3s}
settings: {rate: 60, arrival: poisson, connections: 4, retries: off, mtls: strict, debounce_after: 50ms}
timeline:
  duration: 31s
  steps:
  - {name: worker-paused, at: 1s, for: 2s, process: {of: worker, service: bar, pick: 1, do: pause}}
  - {name: envoy-paused, at: 5s, for: 2s, process: {of: envoy, service: bar, pick: 1, do: pause}}
  - {name: agent-paused, at: 5s, for: 2s, process: {of: agent, service: front, pick: 1, do: pause}}
  - {name: cut, at: 9s, for: 2s, network: {from: front, to: bar, pick: 1, cut: true}}
  - {name: lost, at: 12s, for: 1500ms, network: {from: front, to: bar, lose: 30%}}
  - {name: delayed, at: 15s, for: 1500ms, network: {from: clients, to: front, delay: 50ms}}
  - {name: narrow, at: 18s, for: 1500ms, network: {from: clients, to: front, rate: 1mbit}}
  - {name: worker-killed, at: 21s, process: {of: worker, service: bar, pick: 1, do: kill}}
  - {name: envoy-killed, at: 21s, process: {of: envoy, service: front, pick: 1, do: kill}}
  - {name: agent-killed, at: 26s, process: {of: agent, service: bar, pick: 2, do: kill}}
blocks: {min: 1, max: 1}
stop: none
assert:
- window("start").failed == 0
- window("worker-paused").failed > 0
- window("envoy-paused").failed > 0
- window("cut").failed > 0
- window("delayed").latency_p50 > 50.0
- window("envoy-killed").failed > 0
- window("agent-killed").failed > 0
`

// TestScenarioSteps executes every step on processes and packets under a real
// mesh. Each shows in the traffic, is proven, and leaves nothing behind. Every
// request that does not balance is listed with what it lacks.
func TestScenarioSteps(t *testing.T) {
	b := newBench(t)
	path, out := b.file(t, "rough", roughScenario), filepath.Join(b.dir, "rough")
	code, text := b.meshtrial(t, "run", path, "--out", out)
	run, _, err := store.Load(t.Context(), out)
	if err != nil || len(run.Trials) != 1 || run.Trials[0].Scenario == nil {
		t.Fatalf("%d trials, %v, exit code %d:\n%s", len(run.Trials), err, code, text)
	}
	trial := &run.Trials[0]
	checked := map[string]bool{}
	for _, c := range trial.Validity.Checks {
		checked[c.Name] = true
		if !c.OK && !labtest.OfTheMachine(*trial, c) {
			t.Errorf("%s: %s", c.Name, c.Detail)
		}
	}
	for _, name := range []string{"server-mtls", "debounce-after"} {
		if !checked[name] {
			t.Errorf("nothing proves %s: %+v", name, trial.Validity.Checks)
		}
	}
	s, err := study.Parse(run.StudyYAML, "resolved.yaml", nil)
	must.OK(t, err)
	events := map[string]record.Event{}
	for _, e := range run.Events {
		events[e.Step+" "+e.Op] = e
		if e.Error != "" {
			t.Errorf("step %s, %s: %s", e.Step, e.Op, e.Error)
		}
	}
	for _, o := range resilience.Of(s).Timeline.Plan() {
		begin, begun := events[o.Name+" "+o.Kind()]
		if !begun || begin.Proof == "" {
			t.Errorf("step %s: begun %v, proof %q", o.Name, begun, begin.Proof)
		}
		if _, ended := events[o.Name+" end "+o.Kind()]; !ended { // at the latest with the timeline
			t.Errorf("step %s has not ended", o.Name)
		}
		t.Logf("%s, %.2f ms late: %s", o.Name, float64(begin.SentNS-begin.PlannedNS)/1e6, begin.Proof)
	}
	found, err := analyses.All().Analyze(run)
	must.OK(t, err)
	for _, a := range found.Cells[0].Scenario.Trials[0].Assertions {
		switch a.Outcome {
		case record.VerdictFail:
			t.Errorf("%s: %s", a.Expr, a.Detail)
		case record.VerdictInconclusive: // the machine is busy
			t.Logf("%s: %s", a.Expr, a.Detail)
		}
	}
	book, err := findings.BookOf(&run, s, trial)
	must.OK(t, err)
	account := book.Account()
	if n := account.Classes[ledger.ClassUnreconciled] + account.Orphans; int64(len(account.Unreconciled)) != n {
		t.Errorf("%d requests are not reconciled, %d are named", n, len(account.Unreconciled))
	}
	for _, one := range account.Unreconciled {
		if one.ID == "" || len(one.Lacks) == 0 {
			t.Errorf("%+v does not say what it lacks", one)
		}
		t.Logf("%s lacks %s", one.ID, strings.Join(one.Lacks, "; "))
	}
	named := int64(0)
	for _, n := range trial.Scenario.Failed {
		named += n
	}
	if int64(len(account.Failures)) < named-int64(len(account.Unreconciled)) {
		t.Errorf("%d requests failed, %d of them are put to a hop", named, len(account.Failures))
	}
	b.gone(t)
}
