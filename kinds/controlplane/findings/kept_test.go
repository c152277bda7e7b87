package findings

import (
	"slices"
	"testing"

	"github.com/meshtrial/meshtrial/analysis/analysistest"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

// Neither a constraint's verdict nor a value may cover only the changes that arrived.
func TestKeptWithLostPairs(t *testing.T) {
	of := func(loses func(block int) bool) func(name string, relative bool, limit float64, swapped bool) (record.TunedBound, record.TunedValue) {
		run := analysistest.SimulateControl(t, analysistest.ControlStudy, 4, func(c record.Cell) analysistest.ControlWorld {
			w := analysistest.Tuned(c)
			if c["variant"] == "sidecar" {
				w.Spoil = func(trial *record.Trial, events []record.Event) {
					if loses(trial.Block) { // 8 of 10 changes lack one of 13 proxies: 6% of the pairs
						for i := range events[:8] {
							events[i].Seen.AckedUS[3] = record.Never
						}
					}
				}
			}
			return w
		})
		o, err := kinds.Observe(run)
		must.OK(t, err)
		return func(name string, relative bool, limit float64, swapped bool) (record.TunedBound, record.TunedValue) {
			recommended, base := 1, 0
			if swapped {
				recommended, base = base, recommended
			}
			m, _, _ := o.MeasureNamed(name)
			return kept(o, study.TuneBound{Finding: name, Relative: relative, Limit: limit, Unit: "us"}, recommended, base), plainValue(o, 1, m)
		}
	}
	worlds := map[string]func(name string, relative bool, limit float64, swapped bool) (record.TunedBound, record.TunedValue){
		"always": of(func(int) bool { return true }), "half": of(func(block int) bool { return block%2 == 0 }), "never": of(func(int) bool { return false }),
	}
	for _, c := range []struct {
		world, name string
		relative    bool
		swapped     bool
		want        string
		known       bool
	}{
		{"never", "convergence_last", true, false, record.TunedMet, true},
		{"never", "convergence_p99", false, false, record.TunedMet, true},
		{"half", "convergence_last", true, false, record.VerdictInconclusive, false},
		{"half", "convergence_last", false, false, record.VerdictInconclusive, false},
		{"half", "convergence_p99", true, false, record.TunedBroken, false}, // over all pairs 3% are missing
		{"half", "convergence_p50", true, false, record.TunedMet, true},
		{"always", "convergence_last", true, false, record.TunedBroken, false},
		{"always", "convergence_last", false, false, record.TunedBroken, false},
		{"always", "convergence_p99", true, false, record.TunedBroken, false},
		{"always", "convergence_p99", false, false, record.TunedBroken, false},
		{"always", "convergence_p99", true, true, record.VerdictInconclusive, false}, // the current setting lost them
		{"always", "convergence_p99", false, true, record.TunedMet, false},
		{"always", "convergence_p50", true, false, record.TunedMet, true},
	} {
		limit := 10e6
		if c.relative {
			limit = 0.5
		}
		got, value := worlds[c.world](c.name, c.relative, limit, c.swapped)
		if got.Verdict != c.want || value.Known != c.known || (c.want == record.TunedMet) == slices.ContainsFunc([]*note.Kind{noteUnreached, noteUnreachedInUse, noteLostShare}, got.Says.Is) {
			t.Errorf("%+v: %+v, %+v", c, got, value)
		}
	}
}
