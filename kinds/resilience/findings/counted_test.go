package findings

import (
	"math"
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
