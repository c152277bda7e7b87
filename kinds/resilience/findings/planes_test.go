package findings

import (
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/observe/ledger"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// An upgrade that loses one request of 10,000 fails, and the ledger names the request. One that
// loses none passes.
func TestOneRequestOfManyIsLost(t *testing.T) {
	text := strings.NewReplacer("duration: 4s", "duration: 100s", "name: gone, at: 1s, remove: {service: bar, replicas: 1}", "name: gone, at: 1s, restart: {service: bar}",
		`window("gone").error_share < 0.05`, "total.error_share == 0.0", "{expr: error_share == 0.0, until: gone}", "ledger.reconciled").Replace(fourSeconds)
	run := scenarioRun(t, text, 2, func(cell record.Cell, _ int) made {
		m := made{requests: 10_000, proxies: true}
		if cell[study.FactorVariant] == "planted" {
			m.fail = failIn(55_550, 55_551, ledger.OutcomeStatus, 1)
		}
		return m
	})
	f := analyze(t, run)
	good, planted := scenarioOf(t, f, "good"), scenarioOf(t, f, "planted")
	if good.Verdict != record.VerdictPass || planted.Verdict != record.VerdictFail || !planted.AsExpected {
		t.Fatalf("good: %s, planted: %s: %+v", good.Verdict, planted.Verdict, planted.Trials)
	}
	if total := planted.Total; total.Requests != 10_000 || total.Failed != 1 || total.ErrorShare != 0.0001 {
		t.Errorf("%d of %d failed: %v", total.Failed, total.Requests, total.ErrorShare)
	}
	if all := planted.Ledger.Failures; len(all) != 1 || all[0].AtS != 55.55 || all[0].Hop == "" {
		t.Errorf("the ledger names %+v", all)
	}
}

// The number of resources that two versions send differently is a finding, with its details.
func TestConfigDifferences(t *testing.T) {
	run := scenarioRun(t, fourSeconds, 2, each(made{spoil: func(trial *record.Trial) {
		if trial.Cell[study.FactorVariant] == "good" {
			trial.Scenario.Planes = []record.ScenarioPlanes{{Step: "second", Seconds: 60, Removed: true, First: record.ScenarioPlane{Revision: "default", Version: "1.31"}, Second: record.ScenarioPlane{Revision: "canary", Version: "1.30"},
				Compared: &record.PlaneConfigs{Proxies: []string{"bar-0"}, Resources: 40, Differing: 7, Differences: []record.ConfigDifference{{Type: "cluster", Path: "lb_policy", First: `"A"`, Resources: 7, Example: "x"}}}}}
		}
	}}))
	f := analyze(t, run)
	found := slices.DeleteFunc(slices.Clone(f.Findings), func(x record.Finding) bool {
		return x.Name != "config_differences" || x.Verdict == record.VerdictInvalid
	})
	if len(found) != 1 || found[0].Estimate != 7 || found[0].Cell[study.FactorVariant] != "good" {
		t.Errorf("%+v", found)
	}
	if planes := scenarioOf(t, f, "good").Planes; len(planes) != 1 || planes[0].Compared.Differing != 7 {
		t.Errorf("%+v", planes)
	}
	if planes := scenarioOf(t, f, "planted").Planes; len(planes) != 0 {
		t.Errorf("without a second: %+v", planes)
	}
}
