package analysis_test

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/analysis/analysistest"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/record"
)

const searchStudy = `
name: one
question: How many?
control: {changes: 5}
factors: {change_rate: [1, 10], proxies: [10, 20, 40]}
search: [{factor: proxies, finding: convergence_p99, bound: 150 ms}]
blocks: {min: 2, max: 3}
`

// failing makes a trial fail one check.
func failing(check string) func(*record.Trial, []record.Event) {
	return func(t *record.Trial, _ []record.Event) {
		t.Validity = record.Validity{Checks: []record.Check{{Name: check, Detail: "it failed"}}}
	}
}

func TestSearch(t *testing.T) {
	run := analysistest.SimulateControl(t, searchStudy, 2, func(c record.Cell) analysistest.ControlWorld {
		w := analysistest.ControlWorld{DebounceMS: 100, Pushes: 5}
		if c[controlplane.FactorChangeRate] == "10" {
			w.DebounceMS = 400
		}
		return w
	})
	f := analysistest.Analyze(t, kinds, run)
	x := analysistest.Get(t, f, "highest_proxies", record.Cell{"change_rate": "1"})
	// At 20 it is so close below the bound that two blocks give no certainty.
	if x.Estimate != 20 || x.Low != 10 || x.High != 40 || x.Open != "" || x.Unit != "sidecars" || x.Verdict != record.VerdictMeasured || x.Cell[controlplane.FactorProxies] != "" {
		t.Errorf("%+v", x)
	}
	if y := analysistest.Get(t, f, "highest_proxies", record.Cell{"change_rate": "10"}); y.Estimate != 0 || y.High != 10 || y.Open != record.OpenLow || !strings.Contains(note.Codes(y.Warnings), "bound_not_met") {
		t.Errorf("%+v", y)
	}
	for name, spoil := range map[string]func(*record.Trial, []record.Event){
		"no trial is valid (istiod-lived: it failed)": failing("istiod-lived"),
		"never arrived": func(_ *record.Trial, events []record.Event) {
			for i := range events {
				events[i].Missed = []int32{1}
			}
		},
	} {
		run := analysistest.SimulateControl(t, searchStudy, 1, func(c record.Cell) analysistest.ControlWorld {
			w := analysistest.ControlWorld{DebounceMS: 10}
			if c[controlplane.FactorProxies] == "40" {
				w.Spoil = spoil
			}
			return w
		})
		if x := analysistest.Get(t, analysistest.Analyze(t, kinds, run), "highest_proxies", record.Cell{"change_rate": "1"}); x.Estimate != 20 || x.High != 40 || !strings.Contains(note.Words(x.Warnings), name) {
			t.Errorf("%s: %+v", name, x)
		}
	}
	// A trial that fails because of the machine says nothing about istiod.
	machine := analysistest.SimulateControl(t, searchStudy, 1, func(c record.Cell) analysistest.ControlWorld {
		w := analysistest.ControlWorld{DebounceMS: 10}
		if c[controlplane.FactorProxies] == "40" {
			w.Spoil = failing("simulator-lag")
		}
		return w
	})
	if x := analysistest.Get(t, analysistest.Analyze(t, kinds, machine), "highest_proxies", record.Cell{"change_rate": "1"}); x.Estimate != 20 || x.High != 20 || x.Open != record.OpenHigh || !strings.Contains(note.Words(x.Warnings), "no trial is valid (simulator-lag: it failed): what istiod can do there is not known") {
		t.Errorf("%+v", x)
	}
	// A level left out above a cell that breaks the bound counts as breaking it.
	left := analysistest.SimulateControl(t, searchStudy, 2, func(c record.Cell) analysistest.ControlWorld {
		if c[controlplane.FactorProxies] == "10" && c[controlplane.FactorChangeRate] == "1" {
			return analysistest.ControlWorld{DebounceMS: 50}
		}
		return analysistest.ControlWorld{DebounceMS: 500}
	})
	kept := left.Trials[:0]
	for _, trial := range left.Trials {
		rate, proxies := trial.Cell[controlplane.FactorChangeRate], trial.Cell[controlplane.FactorProxies]
		if rate == "1" && proxies != "40" || rate == "10" && proxies == "10" {
			kept = append(kept, trial)
		}
	}
	left.Trials = kept
	g := analysistest.Analyze(t, kinds, left)
	if x := analysistest.Get(t, g, "highest_proxies", record.Cell{"change_rate": "1"}); x.Estimate != 10 || x.High != 20 {
		t.Errorf("%+v", x)
	}
	if x := analysistest.Get(t, g, "highest_proxies", record.Cell{"change_rate": "10"}); x.Estimate != 0 || x.High != 10 {
		t.Errorf("%+v", x)
	}
	if !strings.Contains(g.Stop, "after 2 of at most 3 blocks") {
		t.Errorf("two blocks with cells left out: %s", g.Stop)
	}
	open := analysistest.SimulateControl(t, searchStudy, 2, func(record.Cell) analysistest.ControlWorld { return analysistest.ControlWorld{DebounceMS: 1} })
	if x := analysistest.Get(t, analysistest.Analyze(t, kinds, open), "highest_proxies", record.Cell{"change_rate": "1"}); x.Estimate != 40 || x.Open != record.OpenHigh || !strings.Contains(note.Words(x.Warnings), "lies higher") {
		t.Errorf("%+v", x)
	}
}

// TestUnacked checks that unacknowledged changes have no convergence, and that
// this is reported.
func TestUnacked(t *testing.T) {
	run := analysistest.SimulateControl(t, searchStudy, 1, func(c record.Cell) analysistest.ControlWorld {
		w := analysistest.ControlWorld{DebounceMS: 10}
		if c[controlplane.FactorProxies] == "40" {
			w.Spoil = func(_ *record.Trial, events []record.Event) {
				for i := range events {
					for k := range events[i].Seen.AckedUS {
						events[i].Seen.AckedUS[k] = record.Never
					}
				}
			}
		}
		return w
	})
	f := analysistest.Analyze(t, kinds, run)
	x := analysistest.Get(t, f, "unacked", record.Cell{"change_rate": "1", "proxies": "40"})
	if x.Estimate <= 0 || x.Verdict != record.VerdictReal || !strings.Contains(note.Words(x.Warnings), "never acknowledged") {
		t.Errorf("%+v", x)
	}
	if x := analysistest.Get(t, f, "unacked", record.Cell{"change_rate": "1", "proxies": "20"}); x.Estimate != 0 || x.Verdict == record.VerdictReal {
		t.Errorf("%+v", x)
	}
	if x := analysistest.Get(t, f, "highest_proxies", record.Cell{"change_rate": "1"}); x.Estimate != 20 || x.High != 40 {
		t.Errorf("%+v", x)
	}
}
