package findings

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

const sizedGraph = `
name: sized-graph
question: Which takes less?
graph: {services: {bar: {replicas: 2, service_time: {mean: 10ms}}}}
load: {to: bar}
settings: {arrival: uniform}
factors: {mesh: [none, istio, linkerd], sidecars: [both, ambient], rate: [100, 400]}
baseline: {mesh: none}
timeline: {duration: 4s}
blocks: {min: 4, max: 4}
stop: none
measures: [latency, cpu, memory]
sizing: {pods: 100, nodes: 10, rps: 1000, l7: 0%}
`

// Meshes compared in one run are compared in the stated mesh: sidecars of 5 mCPU and 300 us per
// call, Linkerd's of 2 and 150, and one ztunnel of 20 and 100. Idle use is over the time in which CPU
// was counted, whatever that was in each trial; the cost of a call is over the calls.
func TestSizing(t *testing.T) {
	f := sizedFindings(t, func(*record.Trial) {})
	want := map[string]float64{"istio both": 0.8, "istio ambient": 0.3, "linkerd -": 0.35}
	memory := map[string]float64{"istio both": 100 * 50e6, "istio ambient": 10 * 15e6, "linkerd -": 100 * 50e6}
	seen := 0
	for _, x := range f.Findings {
		key := x.Cell[study.FactorMesh] + " " + x.Cell[study.FactorSidecars]
		if v := map[string]float64{study.FindingSizedCores: want[key], study.FindingSizedMemory: memory[key]}[x.Name]; strings.HasPrefix(x.Name, "sized_") {
			if seen++; math.Abs(x.Estimate/v-1) > 0.02 || x.Low > v*1.001 || x.High < v*0.999 {
				t.Errorf("%+v, want %g", x, v)
			}
		}
	}
	if seen != 6 || len(f.Sizings) != 1 {
		t.Fatalf("%d findings in %d tables", seen, len(f.Sizings))
	}
	var names []string
	for _, w := range f.Sizings[0].Ways {
		names = append(names, w.Name)
		if w.Machine == nil {
			t.Errorf("what %s takes of the machine is not known", w.Name)
		}
	}
	if got := strings.Join(names, ", "); got != "sidecars, ambient, Linkerd's sidecars" {
		t.Errorf("the ways are %s", got)
	}
	for _, says := range []string{`With ambient the stated mesh takes less CPU than with sidecars, by (500|499\.[5-9]|500\.[0-4])\d* mCPU`, `With Linkerd's sidecars the stated mesh takes less CPU than with sidecars, by (450|449\.[5-9]|450\.[0-4])\d* mCPU`} {
		if !regexp.MustCompile(says).MatchString(note.Words(f.Sizings[0].Says)) {
			t.Errorf("%q is not in %q", says, f.Sizings[0].Says)
		}
	}
}

// In graphs too, the node agent is part of a node's cost, and has separate figures.
func TestSizingWithTheNodeAgent(t *testing.T) {
	f := sizedFindings(t, func(trial *record.Trial) {
		if s := trial.Scenario; s.NodeProxies > 0 {
			trial.NodeAgents, s.CPU[record.PartNodeAgent], s.Memory[record.PartNodeAgent] = 2, record.CPU{UserS: s.CountedS * 2 * 0.002}, 2*78e6
		}
	})
	seen := 0
	for _, x := range f.Findings {
		want := map[string]float64{study.FindingSizedCores: 0.3 + 10*0.002, study.FindingSizedMemory: 10 * (15e6 + 78e6), "cpu_node_agent": 2, "memory_node_agent": 78e6}[x.Name]
		if want == 0 || x.Cell[study.FactorSidecars] != study.SidecarsAmbient {
			continue
		}
		if seen++; math.Abs(x.Estimate/want-1) > 0.02 || x.Verdict != record.VerdictMeasured {
			t.Errorf("%+v, want %g", x, want)
		}
	}
	if notes := note.Words(f.Sizings[0].Notes); seen != 6 || !strings.Contains(notes, "is included in what each node takes with ambient (2.0 mCPU, 78 MB).") {
		t.Errorf("%d findings, %s", seen, notes)
	}
}

// sizedFindings returns findings of a run in which ways take what TestSizing says; also introduces
// faults in a trial.
func sizedFindings(t *testing.T, also func(*record.Trial)) record.Findings {
	t.Helper()
	return idle(t, sizedGraph, 4, func(trial *record.Trial) {
		s, cell := trial.Scenario, trial.Cell
		rps, err := strconv.ParseFloat(cell[study.FactorRate], 64)
		must.OK(t, err)
		// CPU is counted for longer than the timeline, the more requests the longer.
		s.CountedS, s.Scheduled = 5+rps/400, int64(4*rps)
		used := map[string]struct{ idle, request float64 }{"istio both": {3 * 0.005, 300e-6}, "istio ambient": {0.02, 100e-6}, "linkerd -": {3 * 0.002, 150e-6}}[cell[study.FactorMesh]+" "+cell[study.FactorSidecars]]
		cpu := (used.idle*s.CountedS + used.request*4*rps) * scatters[trial.Block]
		s.CPU = map[string]record.CPU{record.PartMachine: {UserS: 0.1*s.CountedS + 50e-6*4*rps + cpu}}
		s.Memory = map[string]int64{}
		sidecar := cell[study.FactorMesh] != study.MeshNone && !study.Ambient(cell)
		for i := range s.Pods {
			s.Pods[i].Sidecar, s.Pods[i].GoneNS = sidecar, 0
		}
		switch {
		case study.Ambient(cell):
			s.NodeProxies, s.CPU[record.PartNode], s.Memory[record.PartNode] = 1, record.CPU{UserS: cpu}, 15e6
		case sidecar:
			s.CPU["clients.proxy"], s.CPU["bar.proxy"] = record.CPU{UserS: 0.75 * cpu}, record.CPU{SystemS: 0.25 * cpu}
			s.Memory["clients.proxy"], s.Memory["bar.proxy"] = 50e6, 100e6
		}
		also(trial)
	})
}

// Trials whose pods were on one node in some blocks and on two in others are not combined.
func TestSizingOfPodsOnOtherNodes(t *testing.T) {
	f := sizedFindings(t, func(trial *record.Trial) {
		if trial.Scenario.NodeProxies > 0 && trial.Block == 1 {
			trial.Scenario.NodeProxies = 2
		}
	})
	for _, w := range f.Sizings[0].Ways {
		if w.Name == "ambient" {
			t.Errorf("%+v", w)
		}
	}
	got := note.Words(f.Warnings)
	for _, want := range []string{"Where each wins: ambient is left out", "kubectl cordon"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
}
