package findings

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// Millicores are over the time in which CPU was counted. Older trials do not say how long
// that was: theirs are over the timeline, with a warning where it was longer.
func TestCPUIsOverTheTimeCounted(t *testing.T) {
	cell := record.Cell{study.FactorVariant: "good"}
	for name, c := range map[string]struct {
		spoil  func(s *record.Scenario)
		want   float64 // of 0.4 s
		warned string
	}{
		"as long as the timeline": {func(s *record.Scenario) { s.CountedS = 4 }, 100, ""},
		"longer":                  {func(s *record.Scenario) { s.CountedS = 5 }, 80, ""},
		"nobody says, as long":    {func(*record.Scenario) {}, 100, ""},
		"nobody says, longer": {func(s *record.Scenario) {
			s.Samples = append([]record.ScenarioSample{{AtNS: s.StartNS - 1000*ms, Ready: map[string]int{"bar": 2}}}, s.Samples...)
		}, 100, "up to 25% too high"},
	} {
		f := analyze(t, scenarioRun(t, fourSeconds, 2, func(record.Cell, int) made {
			return made{proxies: true, spoil: func(t *record.Trial) { c.spoil(t.Scenario) }}
		}))
		for finding, want := range map[string]float64{"cpu_control_plane": c.want, "cpu_client_proxy": 2 * c.want} {
			if x := get(t, f, finding, cell); math.Abs(x.Estimate-want) > 1e-6 {
				t.Errorf("%s: %s is %v mCPU, want %v", name, finding, x.Estimate, want)
			}
		}
		of := slices.DeleteFunc(slices.Clone(f.Warnings), func(w string) bool { return !strings.HasPrefix(w, "CPU was counted") })
		if c.warned == "" && len(of) > 0 || c.warned != "" && (len(of) != 1 || !strings.Contains(of[0], c.warned)) {
			t.Errorf("%s: warned %q, want %q", name, of, c.warned)
		}
	}
}

// What proxies take without requests goes by the time in which CPU was counted, however
// long that was in which trial, and what a request takes by the requests: also where
// older trials do not say how long it was.
func TestSizingByTheTimeCounted(t *testing.T) {
	for _, said := range []bool{true, false} {
		f := analyze(t, scenarioRun(t, sizedGraph, 4, func(cell record.Cell, block int) made {
			return made{events: func(*record.Trial) []record.Event { return nil }, spoil: func(t *record.Trial) {
				s := t.Scenario
				rps, err := strconv.ParseFloat(cell[study.FactorRate], 64)
				if err != nil {
					panic(err)
				}
				over := 5 + rps/400 // the more requests, the longer what follows them
				scatter := 1 + []float64{-0.01, 0.01, 0.01, -0.01}[block]
				s.Scheduled = int64(4 * rps)
				if s.CountedS = over; !said {
					s.CountedS, s.Samples[0].AtNS = 0, s.EndNS-int64(over*1e9)
				}
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
				t.Errorf("said %v: %v of %v cores, want %v", said, x.Cell, x.Estimate, want)
			}
		}
		if seen != 3 {
			t.Errorf("%d ways", seen)
		}
	}
}
