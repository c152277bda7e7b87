package findings

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/kinds/resilience"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

const podsGraph = `
name: pods
question: What does a pod add?
graph: {services: {bar: {replicas: 2, service_time: {mean: 10ms}}}}
load: {to: bar}
settings: {arrival: uniform, rate: 100}
factors: {replicas: [1, 5, 10], sidecars: [both, ambient]}
baseline: {sidecars: both}
timeline: {duration: 4s}
blocks: {min: 4, max: 4}
stop: none
measures: [latency, cpu, memory]
sizing: {pods: 1000, nodes: 50, rps: 0, l7: 0%}
`

// idleFindings returns findings of a run in which a sidecar takes 4 mCPU and 50 MB, and a ztunnel
// 20 mCPU and 30 MB plus 0.5 mCPU and 1 MB for each pod. also introduces faults.
func idleFindings(t *testing.T, also func(*record.Trial)) record.Findings {
	t.Helper()
	return idle(t, podsGraph, 4, func(trial *record.Trial) {
		s, ambient := trial.Scenario, study.Ambient(trial.Cell)
		n, err := strconv.Atoi(trial.Cell[study.FactorReplicas])
		must.OK(t, err)
		pods, scatter := float64(n+1), scatters[trial.Block]
		s.Scheduled = 400
		s.Pods = []record.ScenarioPod{{Name: "clients-0", Service: "clients", Sidecar: !ambient}}
		for i := range n {
			s.Pods = append(s.Pods, record.ScenarioPod{Name: "bar-" + strconv.Itoa(i), Service: "bar", Sidecar: !ambient})
		}
		if ambient {
			s.NodeProxies, s.CPU, s.Memory = 1, map[string]record.CPU{record.PartNode: {UserS: 4 * scatter * (0.020 + 0.0005*pods)}}, map[string]int64{record.PartNode: int64(scatter * (30e6 + 1e6*pods))}
		} else {
			s.CPU = map[string]record.CPU{"clients.proxy": {UserS: 4 * scatter * 0.004}, "bar.proxy": {UserS: 4 * scatter * 0.004 * float64(n)}}
			s.Memory = map[string]int64{"clients.proxy": int64(scatter * 50e6), "bar.proxy": int64(scatter * 50e6 * float64(n))}
		}
		also(trial)
	})
}

// scatters are the factors of the use in each block.
var scatters = []float64{0.99, 1.01, 1.01, 0.99}

// The cost of each pod is the slope along their number, with an interval, and the border in the
// stated mesh follows from it.
func TestWhatEachPodAdds(t *testing.T) {
	f := idleFindings(t, func(*record.Trial) {})
	want := map[string]float64{
		"both " + resilience.FindingPodCPU: 4, "both " + resilience.FindingBareCPU: 0, "both " + resilience.FindingPodMemory: 50e6, "both " + resilience.FindingBareMemory: 0,
		"ambient " + resilience.FindingPodCPU: 0.5, "ambient " + resilience.FindingBareCPU: 20, "ambient " + resilience.FindingPodMemory: 1e6, "ambient " + resilience.FindingBareMemory: 30e6,
	}
	seen := 0
	for _, x := range f.Findings {
		v, ok := want[x.Cell[study.FactorSidecars]+" "+x.Name]
		if !ok {
			continue
		}
		seen++
		slack := 0.02*v + 1e-6
		if x.Unit == "bytes" {
			slack += 10 // of whole bytes
		}
		if x.Verdict != record.VerdictMeasured || math.Abs(x.Estimate-v) > slack || x.Low > v+slack || x.High < v-slack || x.Blocks != 4 || x.Cell[study.FactorReplicas] != "" {
			t.Errorf("%+v, want %g", x, v)
		}
	}
	if seen != len(want) {
		t.Errorf("%d findings, want %d", seen, len(want))
	}
	if len(f.Sizings) != 1 || len(f.Sizings[0].Ways) != 2 {
		t.Fatalf("%+v", f.Sizings)
	}
	says := note.Words(f.Sizings[0].Says)
	for _, want := range []string{`With ambient the stated mesh takes less CPU than with sidecars, by 2\.(49|5)\d* cores \(95% interval 2\.4\d+ to 2\.5\d+\)`, `takes less memory than with sidecars, by 4\d\.\d+ GB`} {
		if !regexp.MustCompile(want).MatchString(says) {
			t.Errorf("%q is not in %q", want, says)
		}
	}
	for _, b := range f.Sizings[0].Borders {
		at := map[string]float64{record.SizedCPU: 20 / 3.5, record.SizedMemory: 30.0 / 49}[b.Of]
		switch {
		case b.Along != "pods on each node" || b.High != 11:
			t.Errorf("%+v", b)
		case b.Of == record.SizedCPU && (b.At == nil || math.Abs(*b.At/at-1) > 0.05 || b.First != "sidecars" || b.Last != "ambient"):
			t.Errorf("want a border at %g pods: %+v", at, b)
		case b.Of == record.SizedMemory && (b.Outcome != "none" || b.First != "ambient"): // less than one pod
			t.Errorf("%+v", b)
		}
	}
}

// The number of pods per node from which ztunnel takes less includes the node agent.
func TestWhatEachPodAddsBesideTheNodeAgent(t *testing.T) {
	f := idleFindings(t, func(trial *record.Trial) {
		if s := trial.Scenario; s.NodeProxies > 0 {
			trial.NodeAgents, s.CPU[record.PartNodeAgent], s.Memory[record.PartNodeAgent] = 1, record.CPU{UserS: 4 * 0.003}, 78e6
		}
	})
	seen := 0
	for _, b := range f.Sizings[0].Borders {
		want := map[string]float64{record.SizedCPU: 23 / 3.5, record.SizedMemory: 108.0 / 49}[b.Of]
		if seen++; b.At == nil || math.Abs(*b.At/want-1) > 0.05 || b.First != "sidecars" || b.Last != "ambient" {
			t.Errorf("want a border at %g pods: %+v", want, b)
		}
	}
	if seen != 2 {
		t.Errorf("%d borders", seen)
	}
}

// Trials whose pods were on one node and on two are not fitted by one line.
func TestWhatEachPodAddsOnOtherNodes(t *testing.T) {
	f := idleFindings(t, func(trial *record.Trial) {
		if trial.Scenario.NodeProxies > 0 && trial.Block == 2 {
			trial.Scenario.NodeProxies = 2
		}
	})
	for _, x := range f.Findings {
		if strings.HasSuffix(x.Name, "_per_pod") && x.Cell[study.FactorSidecars] != study.SidecarsBoth {
			t.Errorf("%+v", x)
		}
	}
	warnings := note.Words(f.Warnings)
	for _, want := range []string{"the cost of each additional pod is unknown for ambient", "in others; run it with only one schedulable node", "Where each wins: ambient is left out"} {
		if !strings.Contains(warnings, want) {
			t.Errorf("%q is not in %q", want, warnings)
		}
	}
}
