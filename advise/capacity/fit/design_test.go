package fit

import (
	"math"
	"testing"

	"github.com/meshtrial/meshtrial/advise/capacity/model"
	"github.com/meshtrial/meshtrial/advise/capacity/push"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
	"github.com/meshtrial/meshtrial/study/studies"
	"github.com/meshtrial/meshtrial/testing/must"
	"github.com/meshtrial/meshtrial/testing/studytest"
)

// Two blocks of the shipped study, in which each figure is off by 6% and an istiod's
// hidden parameters made the rest, tell what the held-out cell depends on, and
// predict it within what the study is for.
func TestShippedStudyIdentifies(t *testing.T) {
	text, err := studies.Read("capacity-holdout")
	must.OK(t, err)
	p := studytest.Plan(t, string(text))
	v := truth()
	depends := map[model.Parameter]float64{model.RDSCPUAnew: 0.2, model.EDSCPUWhole: 0.4, model.EDSBytesWhole: 0.1, model.CPUPerServiceOf(push.RDS): 0.25, model.CPUOf(push.LDS): 0.3,
		model.BytesPerServiceOf(push.RDS): 0.05, model.BesidePerByte: 0.3, model.MemoryPerProxy: 0.4}
	errors := map[model.Parameter][]float64{}
	off := map[string][]float64{}
	within, all := 0, 0
	for seed := uint64(1); seed <= 3; seed++ {
		run := madeUpOf(t, v, p.Cells, func(rate float64) int { return int(rate * controlplane.Of(p.Study).Duration.Seconds()) }, 2, 0.06, seed)
		m, err := Fit([]record.Run{run}, Options{Seed: 1, Draws: 30, HoldOut: record.Cell{"variant": "held-out"}})
		must.OK(t, err)
		for k := range depends {
			f := m.Parameters[k]
			if !(f.Low <= v[k] && v[k] <= f.High) && f.Assumed {
				t.Errorf("run %d does not tell %s, and its interval does not hold it: %+v", seed, f.Name, f.Interval)
			}
			errors[k] = append(errors[k], f.Estimate/v[k]-1)
		}
		for _, a := range m.HeldOut[0].Outputs {
			off[a.Output] = append(off[a.Output], math.Abs(a.Predicted/a.Measured-1))
			all++
			if a.Measured >= a.Low && a.Measured <= a.High {
				within++
			}
		}
	}
	for k, most := range depends {
		sum := 0.0
		for _, e := range errors[k] {
			sum += e * e
		}
		spread := math.Sqrt(sum / float64(len(errors[k])))
		t.Logf("%s is off by %.0f%% on the whole", model.Definitions[k].Name, 100*spread)
		if spread > most {
			t.Errorf("%s is off by %.0f%%, at most %.0f%%: %.2f", model.Definitions[k].Name, 100*spread, 100*most, errors[k])
		}
	}
	for _, output := range []string{model.OutConvergenceP50, model.OutConvergenceP99, model.OutPushes, model.OutBytes, model.OutCPU, model.OutMemory} {
		t.Logf("%s of the held-out cell: %.2f", output, off[output])
		if e := stat.Median(off[output]); e > 0.15 && output != model.OutMemory {
			t.Errorf("%s of the held-out cell is off by %.0f%% at the median", output, 100*e)
		}
	}
	if float64(within) < 0.9*float64(all) {
		t.Errorf("%d of %d measured points lie within their intervals", within, all)
	}
}
