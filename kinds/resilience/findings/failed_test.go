package findings

import (
	"math"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/observe/ledger"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

// asked returns the outcome of an assertion in the first trial of a run.
func asked(t *testing.T, run record.Run, e study.Expr) record.ScenarioAssertion {
	t.Helper()
	f, err := (analysis.Kinds{Kind()}).Analyze(run, e)
	must.OK(t, err)
	all := scenarioOf(t, f, "good").Trials[0].Assertions
	return all[len(all)-1]
}

// No latency bound holds if nothing was answered. If some requests failed, latency covers all
// requests; that of the answered ones has a separate name.
func TestLatencyOfFailedRequests(t *testing.T) {
	outage := scenarioRun(t, fourSeconds, 1, each(made{proxies: true, fail: failIn(1000, 2000, ledger.OutcomeStatus, 1)}))
	silent := scenarioRun(t, fourSeconds, 1, each(made{fail: failIn(1000, 2000, ledger.OutcomeUnfinished, 0)}))
	third := scenarioRun(t, fourSeconds, 1, each(made{proxies: true, fail: func(due int64) (string, int64) {
		if due >= 1000*ms && due < 2000*ms && due/(10*ms)%3 == 0 {
			return ledger.OutcomeStatus, ms
		}
		return "", 0
	}}))
	within := func(text string) study.Expr {
		return study.Expr{Text: text, Timed: true, After: "gone", Until: "sick", Within: 5e8}
	}
	for name, c := range map[string]struct {
		run    record.Run
		e      study.Expr
		want   string
		detail string
	}{
		"outage":                {outage, study.Expr{Text: `window("gone").latency_p99 < 1000.0`}, "fail", `window("gone").latency_p99 is never`},
		"too few":               {outage, study.Expr{Text: `window("start").latency_p99 < 1000.0`}, "inconclusive", "p99 3,000"},
		"too few, else decided": {outage, study.Expr{Text: `window("start").answered_max > 1000.0 && window("start").latency_p99 < 1000.0`}, "fail", ""},
		"enough":                {outage, study.Expr{Text: `window("start").latency_p50 < 1000.0`}, "pass", "10 ms"},
		"outage, median":        {outage, study.Expr{Text: `window("gone").latency_p50 < 1000.0`}, "fail", "is never"},
		"outage, answered":      {outage, study.Expr{Text: `window("gone").answered_p99 < 1000.0`}, "fail", "is never"},
		"outage, before":        {outage, study.Expr{Text: `window("start").latency_max < 20.0 && window("start").answered_max < 20.0`}, "pass", ""},
		"outage, moments":       {outage, within("latency_p99 < 500.0"), "fail", "latency_p99 never"},
		"silent":                {silent, study.Expr{Text: `window("gone").latency_p99 < 1000.0`}, "fail", "is never"},
		"silent, moments":       {silent, within("error_share < 0.5"), "fail", "error_share 100%"},
		"third":                 {third, study.Expr{Text: `window("gone").latency_p90 < 20.0`}, "fail", "is never"},
		"third, half":           {third, study.Expr{Text: `window("gone").latency_p50 < 20.0`}, "pass", ""},
		"third, answered":       {third, study.Expr{Text: `window("gone").answered_max < 20.0`}, "pass", ""},
	} {
		if a := asked(t, c.run, c.e); a.Outcome != c.want || !strings.Contains(a.Detail, c.detail) {
			t.Errorf("%s: %s, %q; want %s, %q", name, a.Outcome, a.Detail, c.want, c.detail)
		}
	}
}

// Requests that never ended did not succeed: they are in the share of errors, in the longest
// failing run, and in what a step has not recovered from.
func TestUnfinishedRequests(t *testing.T) {
	run := scenarioRun(t, fourSeconds, 2, each(made{fail: failIn(3000, 4000, ledger.OutcomeUnfinished, 0)}))
	f := analyze(t, run)
	s := scenarioOf(t, f, "good")
	if w := s.Total; w.ErrorShare != 0.25 || w.Failed != 0 || w.Unfinished != 100 || w.LongestFailUS != 1e6 {
		t.Errorf("%+v", w)
	}
	sick := s.Steps[len(s.Steps)-1]
	if sick.Failed != 100 || !sick.StillFailing || sick.DetectUS != nil || sick.RecoverUS == nil || *sick.RecoverUS != 1_990_000 {
		t.Errorf("%+v", sick)
	}
	if a := asked(t, run, study.Expr{Text: `step("sick").recover < 1000.0`}); a.Outcome != record.VerdictFail {
		t.Errorf("%+v", a)
	}
	cell := record.Cell{study.FactorVariant: "good"}
	if x := get(t, f, "error_share", cell); x.Estimate != 0.25 {
		t.Errorf("%+v", x)
	}
	if x := get(t, f, "failed_requests", cell); x.Estimate != 100 {
		t.Errorf("%+v", x)
	}
}

// A time that was not reached in one trial is not the mean of the others.
func TestTimesOfEachTrial(t *testing.T) {
	text := strings.Replace(fourSeconds, "blocks: {min: 2, max: 2}", "blocks: {min: 2, max: 3}", 1)
	run := scenarioRun(t, text, 3, func(_ record.Cell, block int) made {
		m := made{fail: failIn(1000, 1100, ledger.OutcomeStatus, 5)}
		switch block {
		case 1:
			m.spoil = func(trial *record.Trial) {
				for i := range trial.Scenario.Samples {
					trial.Scenario.Samples[i].Ejected = nil
				}
			}
		case 2:
			m.fail = nil
		}
		return m
	})
	f := analyze(t, run)
	cell := record.Cell{study.FactorVariant: "good"} // the baseline: it has two trials in each block
	for name, want := range map[string]string{
		"time_to_eject":  "not reached: in 2 of 6 trials no proxy ejected an endpoint, as in b001-",
		"time_to_detect": "not reached: in 2 of 6 trials clients saw no failure, as in b002-",
	} {
		x := get(t, f, name, cell)
		if x.Verdict != record.VerdictInvalid || x.Reason != record.ReasonNotReached || !strings.HasPrefix(note.Words(x.Warnings), want) {
			t.Errorf("%s: %+v", name, x)
		}
	}
	// A trial in which nothing failed has nothing to recover from.
	if x := get(t, f, "time_to_recover", cell); x.Verdict != record.VerdictMeasured || math.Abs(x.Estimate-2*95_000.0/3) > 1 {
		t.Errorf("%+v", x)
	}
	still := scenarioRun(t, fourSeconds, 2, func(_ record.Cell, block int) made {
		return made{fail: failIn(1000, 1100+850*int64(block), ledger.OutcomeStatus, 5)}
	})
	if x := get(t, analyze(t, still), "time_to_recover", cell); x.Reason != record.ReasonNotReached || !strings.Contains(note.Words(x.Warnings), "in 2 of 4 trials requests still failed") {
		t.Errorf("%+v", x)
	}
	// Without ejections and failures there is no such time.
	calm := scenarioRun(t, fourSeconds, 2, each(made{spoil: func(trial *record.Trial) { trial.Scenario.Samples = nil }}))
	for _, x := range analyze(t, calm).Findings {
		if strings.HasPrefix(x.Name, "time_to_") {
			t.Errorf("%+v", x)
		}
	}
}
