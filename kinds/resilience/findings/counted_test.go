package findings

import (
	"math"
	"testing"

	"github.com/meshtrial/meshtrial/drive/graph"
	"github.com/meshtrial/meshtrial/kinds/resilience"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// Millicores are over the time in which CPU was counted.
func TestCPUIsOverTheTimeCounted(t *testing.T) {
	cell := record.Cell{study.FactorVariant: "good"}
	for overS, mCPU := range map[float64]float64{4: 100, 5: 80} { // of 0.4 s
		f := analyze(t, scenarioRun(t, fourSeconds, 2, each(made{proxies: true, spoil: func(t *record.Trial) { t.Scenario.CountedS = overS }})))
		for finding, want := range map[string]float64{"cpu_control_plane": mCPU, "cpu_client_proxy": 2 * mCPU} {
			if x := get(t, f, finding, cell); math.Abs(x.Estimate-want) > 1e-6 {
				t.Errorf("over %v s: %s is %v mCPU, want %v", overS, finding, x.Estimate, want)
			}
		}
	}
}

// The use of one proxy is the mean over services, and unknown if that of one was not read.
func TestPerProxy(t *testing.T) {
	front := graph.Graph{Services: []graph.Service{{Name: "front", Replicas: 2}}}.WithDefaults()
	s := &trialScenario{study: &study.Study{Section: &resilience.Scenario{Graph: front, Entry: "front"}}, trial: &record.Trial{Scenario: &record.Scenario{Scheduled: 10,
		Pods: []record.ScenarioPod{{Service: "clients", Sidecar: true}, {Service: "front", Sidecar: true}, {Service: "front", Sidecar: true}, {Service: "back", Sidecar: true}, {Service: "old"}}}}}
	for want, memory := range map[float64]map[string]int64{40: {"front.proxy": 100, "back.proxy": 20, "clients.proxy": 7}, -1: {"front.proxy": 100}} {
		s.trial.Scenario.Memory = memory
		got := perProxy(s, proxyRoles[record.PartServerProxy], memoryOf, leftAtEnd)
		if math.IsNaN(got) {
			got = -1
		}
		if got != want {
			t.Errorf("%v: %v, want %v", memory, got, want)
		}
	}
	s.trial.Scenario.CPU = map[string]record.CPU{"front.proxy": {UserS: 3}, "clients.proxy": {UserS: 1}}
	if used, _, _ := proxyUse(s); !math.IsNaN(used) {
		t.Errorf("without those of back all used %v s", used)
	}
	s.trial.Scenario.CPU["back.proxy"] = record.CPU{}
	if used, passes, _ := proxyUse(s); used != 4 || passes != 20 {
		t.Errorf("all used %v s in %v passes", used, passes)
	}
}
