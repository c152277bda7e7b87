package verdict

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/verdict"
)

// A trial with several simulators is valid only if they had all proxies, by clocks that agreed.
func TestJudgeSimulators(t *testing.T) {
	two := func(edit func(all []record.Simulator)) func(*ruling) {
		return func(r *ruling) {
			r.trial.Cell = record.Cell{controlplane.FactorSimulators: "2"}
			r.trial.Control.Simulators = []record.Simulator{{Pod: "a", Proxies: 6}, {Pod: "b", Proxies: 4, Before: record.Clock{AheadUS: 5000, ErrorUS: 40}, After: record.Clock{AheadUS: 5010, ErrorUS: 40}}}
			edit(r.trial.Control.Simulators)
		}
	}
	for name, tt := range map[string]struct {
		edit   func(*ruling)
		fails  string
		warned bool
	}{
		"one":                 {func(*ruling) {}, "", false},
		"two, 5 ms apart":     {two(func([]record.Simulator) {}), "", false},
		"a clock set by 5 ms": {two(func(all []record.Simulator) { all[1].After.AheadUS += 5000 }), "simulators-apart", false},
		"back by 5 ms":        {two(func(all []record.Simulator) { all[1].After.AheadUS -= 5000 }), "simulators-apart", false},
		"nobody knows":        {two(func(all []record.Simulator) { all[1].Before.ErrorUS, all[1].After.ErrorUS = 3000, 3000 }), "", true},
		"within the error": {two(func(all []record.Simulator) {
			all[1].Before, all[1].After = record.Clock{AheadUS: 900, ErrorUS: 1000}, record.Clock{AheadUS: 900, ErrorUS: 1000}
		}), "", false},
		"perhaps set by 700 us": {two(func(all []record.Simulator) {
			all[1].Before, all[1].After = record.Clock{AheadUS: 900, ErrorUS: 1000}, record.Clock{AheadUS: 1600, ErrorUS: 1000}
		}), "", true},
		"900 us were taken off, and 2500 us it was": {two(func(all []record.Simulator) {
			all[1].Before, all[1].After = record.Clock{AheadUS: 900, ErrorUS: 1000}, record.Clock{AheadUS: 2500, ErrorUS: 200}
		}), "simulators-apart", false},
		"one had fewer": {two(func(all []record.Simulator) { all[1].Proxies-- }), "simulators", false},
		"nothing of the second": {func(r *ruling) {
			two(func([]record.Simulator) {})(r)
			r.trial.Control.Simulators = r.trial.Control.Simulators[:1]
		}, "simulators", false},
		"nothing of either":     {func(r *ruling) { r.trial.Cell = record.Cell{controlplane.FactorSimulators: "2"} }, "simulators", false},
		"an account is missing": {func(r *ruling) { two(func([]record.Simulator) {})(r); r.seen.AccountAfter.Proxies = 6 }, "simulators", false},
		"one too many": {func(r *ruling) {
			two(func([]record.Simulator) {})(r)
			delete(r.trial.Cell, controlplane.FactorSimulators)
		}, "simulators", false},
	} {
		r := rulingOn(10)
		r.seen.AccountAfter.Proxies = 10
		tt.edit(r)
		r.simulators()
		v := r.Validity()
		var failed []string
		for _, c := range v.Checks {
			if !c.OK {
				failed = append(failed, c.Name)
			}
		}
		if got := strings.Join(failed, " "); got != tt.fails || (len(v.Warnings) > 0) != tt.warned {
			t.Errorf("%s: %q, %+v", name, got, v)
		}
	}
	trial, e := aTrial(2, 2)
	trial.Cell[controlplane.FactorSimulators], e.AccountAfter.Proxies, e.Repeated = "2", 2, []string{"the simulator was lost"}
	trial.Control.Simulators = []record.Simulator{{Pod: "a", Proxies: 1}, {Pod: "b", Proxies: 1, After: record.Clock{AheadUS: 600}}}
	for limit, ok := range map[float64]bool{1: true, 0.5: false} {
		out, _ := Of(trial, e, verdict.Limits{simulatorsApart.Name: limit})
		if out.Validity.Valid != ok || !verdict.NoteRepeated.In(out.Validity.Warnings) {
			t.Errorf("%v ms: %+v", limit, out.Validity)
		}
	}
}
