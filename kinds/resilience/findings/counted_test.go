package findings

import (
	"math"
	"strconv"
	"testing"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// Millicores are over the time in which CPU was counted.
func TestCPUIsOverTheTimeCounted(t *testing.T) {
	cell := record.Cell{study.FactorVariant: "good"}
	for overS, mCPU := range map[float64]float64{4: 100, 5: 80} { // of 0.4 s
		f := analyze(t, scenarioRun(t, fourSeconds, 2, func(record.Cell, int) made {
			return made{proxies: true, spoil: func(t *record.Trial) { t.Scenario.CountedS = overS }}
		}))
		for finding, want := range map[string]float64{"cpu_control_plane": mCPU, "cpu_client_proxy": 2 * mCPU} {
			if x := get(t, f, finding, cell); math.Abs(x.Estimate-want) > 1e-6 {
				t.Errorf("over %v s: %s is %v mCPU, want %v", overS, finding, x.Estimate, want)
			}
		}
	}
}

// Idle use of proxies is over the time in which CPU was counted, whatever that was in each trial;
// the cost of a request is over the requests.
func TestSizingByTheTimeCounted(t *testing.T) {
	f := analyze(t, scenarioRun(t, sizedGraph, 4, func(cell record.Cell, block int) made {
		return made{events: func(*record.Trial) []record.Event { return nil }, spoil: func(t *record.Trial) {
			s := t.Scenario
			rps, err := strconv.ParseFloat(cell[study.FactorRate], 64)
			if err != nil {
				panic(err)
			}
			over := 5 + rps/400 // the more requests, the longer the work after them
			scatter := 1 + []float64{-0.01, 0.01, 0.01, -0.01}[block]
			s.Scheduled = int64(4 * rps)
			s.CountedS = over
			s.CPU = map[string]record.CPU{record.PartMachine: {UserS: over}}
			sidecar := cell[study.FactorMesh] != study.MeshNone && !study.Ambient(cell)
			for i := range s.Pods {
				s.Pods[i].Sidecar, s.Pods[i].GoneNS = sidecar, 0
			}
			switch {
			case study.Ambient(cell):
				s.NodeProxies, s.CPU[record.PartNode] = 1, record.CPU{UserS: scatter * (0.02*over + 100e-6*4*rps)}
			case sidecar:
				s.CPU["clients.proxy"] = record.CPU{UserS: scatter * (3*0.005*over + 300e-6*4*rps)}
			}
		}}
	}))
	seen := 0
	for _, x := range f.Findings {
		if x.Name != study.FindingSizedCores {
			continue
		}
		seen++
		want := 0.8 // 100 sidecars and 1,000 calls
		if study.Ambient(x.Cell) {
			want = 0.3 // 10 nodes
		}
		if math.Abs(x.Estimate/want-1) > 0.02 {
			t.Errorf("%v of %v cores, want %v", x.Cell, x.Estimate, want)
		}
	}
	if seen != 3 {
		t.Errorf("%d ways", seen)
	}
}
