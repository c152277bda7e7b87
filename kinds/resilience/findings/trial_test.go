package findings

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/observe/ledger"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

// failIn fails every request that is due in a span, in milliseconds.
func failIn(from, to int64, kind string, after int64) func(int64) (string, int64) {
	return func(due int64) (string, int64) {
		if due >= from*ms && due < to*ms {
			return kind, after * ms
		}
		return "", 0
	}
}

func TestScenarioWindows(t *testing.T) {
	// The step "gone" begins at 1.002 s, rounded to 1.00 s. Requests due from 0.98 s on fail after
	// 50 ms until 1.2 s: the two pending when it began belong to the step. "sick" ends at 2.505 s,
	// rounded to 2.51 s.
	run := scenarioRun(t, fourSeconds, 2, each(made{fail: failIn(980, 1200, ledger.OutcomeStatus, 50), proxies: true}))
	s := scenarioOf(t, analyze(t, run), "good")
	var got []string
	for _, w := range s.Windows {
		got = append(got, fmt.Sprintf("%s %.2f-%.2f %d/%d", w.Name, w.FromS, w.ToS, w.Failed, w.Requests))
	}
	want := []string{"start 0.00-1.00 0/98", "gone 1.00-2.00 22/102", "sick 2.00-2.51 0/51", "sick.end 2.51-4.00 0/149"}
	if !slices.Equal(got, want) {
		t.Errorf("windows are %q, want %q", got, want)
	}
	if s.Total.Requests != 400 || s.Total.Failed != 22 || s.Total.Answered != 378 {
		t.Errorf("the whole has %d requests, %d failed, %d answered", s.Total.Requests, s.Total.Failed, s.Total.Answered)
	}
	gone := s.Windows[1]
	if gone.FailedBy[ledger.OutcomeStatus] != 22 || gone.Latency.At(0.5) != 10_000 || gone.Latency.Max() != 10_000 {
		t.Errorf("window gone: failed by %v, latency %+v", gone.FailedBy, gone.Latency)
	}
	// 80 requests with 1 attempt, 22 with 3.
	if want := (80 + 22*3) / 102.0; math.Abs(gone.Attempts-want) > 1e-9 {
		t.Errorf("%v attempts per request, want %v", gone.Attempts, want)
	}
	if gone.Hidden != 44 || gone.PhantomAttempts == 0 || gone.Ready["bar"] != 1 {
		t.Errorf("hidden %d, phantom attempts %d, ready %v", gone.Hidden, gone.PhantomAttempts, gone.Ready)
	}
	// The run of failures lasts from the step's start to the next answer, due at 1.2 s.
	if gone.LongestFailUS != 200_000 || s.Total.LongestFailUS != 200_000 {
		t.Errorf("longest failing run %v, of the whole %v", gone.LongestFailUS, s.Total.LongestFailUS)
	}
}

func TestScenarioSteps(t *testing.T) {
	run := scenarioRun(t, fourSeconds, 1, each(made{fail: failIn(1100, 1300, ledger.OutcomeTimeout, 100)}))
	s := scenarioOf(t, analyze(t, run), "good")
	gone, sick := s.Steps[0], s.Steps[1]
	// Failures are reported from 1.2 s to 1.39 s.
	if gone.DetectUS == nil || *gone.DetectUS != 200_000 || gone.RecoverUS == nil || *gone.RecoverUS != 390_000 || gone.StillFailing || gone.Failed != 20 {
		t.Errorf("step gone: %+v", gone)
	}
	if gone.EjectUS != nil || sick.EjectUS == nil || *sick.EjectUS != 200_000 {
		t.Errorf("ejected after %v and %v, want never and 200 ms", gone.EjectUS, sick.EjectUS)
	}
	if sick.DetectUS != nil || sick.RecoverUS != nil || sick.EndS < 2.5 || gone.LateUS != 2000 || gone.Proof == "" {
		t.Errorf("step sick: %+v", sick)
	}
	if gone.LongestFailUS != 200_000 || sick.LongestFailUS != 0 {
		t.Errorf("longest failing runs %v and %v", gone.LongestFailUS, sick.LongestFailUS)
	}
}

func TestScenarioStillFailing(t *testing.T) {
	run := scenarioRun(t, fourSeconds, 1, each(made{fail: failIn(1500, 4000, ledger.OutcomeStatus, 1)}))
	s := scenarioOf(t, analyze(t, run), "good")
	for _, one := range s.Steps {
		if !one.StillFailing {
			t.Errorf("step %s is not still failing", one.Name)
		}
	}
	if last := s.Windows[len(s.Windows)-1]; last.LongestFailUS != 1_490_000 {
		t.Errorf("the run to the end is %v", last.LongestFailUS)
	}
}

// Whatever happens when, the windows' counts add up to the whole.
func TestScenarioWindowsAddUp(t *testing.T) {
	kinds := []string{"", "", ledger.OutcomeStatus, ledger.OutcomeTimeout, ledger.OutcomeReset, ledger.OutcomeUnfinished}
	rapid.Check(t, func(r *rapid.T) {
		outcome := rapid.SliceOfN(rapid.SampledFrom(kinds), 400, 400).Draw(r, "outcomes")
		after := rapid.SliceOfN(rapid.Int64Range(0, 3000), 400, 400).Draw(r, "after")
		at := rapid.SliceOfN(rapid.Int64Range(0, 4100), 3, 3).Draw(r, "steps")
		run := scenarioRun(t, fourSeconds, 1, each(made{proxies: true, fail: func(due int64) (string, int64) { return outcome[due/(10*ms)], after[due/(10*ms)] * ms },
			events: func(trial *record.Trial) []record.Event {
				end := stepEvent(trial, "sick", "end worker", max(at[1], at[2])*ms)
				return []record.Event{stepEvent(trial, "gone", "remove", at[0]*ms), stepEvent(trial, "sick", "worker", at[1]*ms), end}
			}}))
		run.Trials = run.Trials[:1] // one is enough
		f, err := (analysis.Kinds{Kind()}).Analyze(run)
		must.OK(r, err)
		s := f.Cells[slices.IndexFunc(f.Cells, func(c record.CellSummary) bool { return c.Scenario.Shown != "" })].Scenario
		var sum record.ScenarioWindow
		to := 0.0
		for _, w := range s.Windows {
			if w.FromS != to || w.ToS <= w.FromS {
				r.Fatalf("window %s is from %v to %v, after %v", w.Name, w.FromS, w.ToS, to)
			}
			to = w.ToS
			sum.Requests += w.Requests
			sum.Answered += w.Answered
			sum.Failed += w.Failed
			sum.Unfinished += w.Unfinished
			sum.Hidden += w.Hidden
			sum.Unreconciled += w.Unreconciled
			by := int64(0)
			for _, n := range w.FailedBy {
				by += n
			}
			if by != w.Failed || w.Requests != w.Answered+w.Failed+w.Unfinished {
				r.Fatalf("window %s: %+v", w.Name, w)
			}
		}
		bins := int64(0)
		for _, n := range s.Series.Requests {
			bins += n
		}
		whole := s.Total
		if to != 4 || bins != 400 || sum.Requests != 400 || whole.Requests != 400 || sum.Answered != whole.Answered || sum.Failed != whole.Failed ||
			sum.Unfinished != whole.Unfinished || sum.Hidden != whole.Hidden || sum.Unreconciled != whole.Unreconciled || s.Ledger.Requests != 400 {
			r.Fatalf("windows add up to %+v until %v, the whole is %+v, bins %d", sum, to, whole, bins)
		}
	})
}

func TestScenarioLedger(t *testing.T) {
	run := scenarioRun(t, fourSeconds, 1, each(made{fail: failIn(1000, 1200, ledger.OutcomeStatus, 30), proxies: true}))
	s := scenarioOf(t, analyze(t, run), "good")
	l := s.Ledger
	if !l.Reconciled || len(l.Unreconciled) != 0 || len(l.Faults) != 1 {
		t.Fatalf("ledger: %+v", l)
	}
	if f := l.Faults[0]; f.Flag != "UF" || f.Hop != string(ledger.HopNetwork) || f.Service != "bar" || f.Count != 20 || f.Meaning == "" || f.Cause == "" {
		t.Errorf("fault: %+v", f)
	}
	// A worker lost its log: its answered requests do not balance.
	run = scenarioRun(t, fourSeconds, 1, each(made{proxies: true}))
	good := run.Requests
	run.Requests = without(good, `"worker"`)
	l = scenarioOf(t, analyze(t, run), "good").Ledger
	if l.Reconciled || len(l.Unreconciled) != 400 || len(l.Unreconciled[0].Lacks) == 0 || l.Unreconciled[399].AtS != 3.99 {
		t.Errorf("%d unreconciled requests, reconciled %v", len(l.Unreconciled), l.Reconciled)
	}
}

func TestScenarioExpectation(t *testing.T) {
	run := scenarioRun(t, fourSeconds, 1, func(cell record.Cell, _ int) made {
		return made{fail: failIn(1000, 1500, ledger.OutcomeStatus, 5)}
	})
	f := analyze(t, run)
	good, planted := scenarioOf(t, f, "good"), scenarioOf(t, f, "planted")
	// 2 replicas with 4 places of 10 ms: 800 per second; with one left: 400.
	for i, want := range []float64{800, 400, 400, 400} {
		if e := good.Windows[i].Expected; math.Abs(e.CapacityRPS-want) > 1e-6 || e.DemandRPS != 100 || e.Attempts != 3 || e.Service != "bar" {
			t.Errorf("window %s: %+v, want capacity %v", good.Windows[i].Name, e, want)
		}
	}
	// Half of all attempts fail: with two retries an eighth of the requests.
	if a, b := good.Windows[2].Expected.ErrorShare, planted.Windows[2].Expected.ErrorShare; math.Abs(a-0.125) > 1e-9 || math.Abs(b-0.5) > 1e-9 {
		t.Errorf("expected error shares %v and %v, want 1/8 and 1/2", a, b)
	}
	if w := good.Windows[1]; len(w.Surprises) != 1 || w.Surprises[0] != "gone: failed 50% of requests although capacity for 300% more was left" {
		t.Errorf("surprises: %q", w.Surprises)
	}
	if w := good.Windows[0]; len(w.Surprises) != 0 {
		t.Errorf("surprises of the begin: %q", w.Surprises)
	}
}

func TestScenarioVerdicts(t *testing.T) {
	run := scenarioRun(t, fourSeconds, 2, func(cell record.Cell, block int) made {
		if cell[study.FactorVariant] == "planted" {
			return made{fail: failIn(1000, 1500, ledger.OutcomeStatus, 5)}
		}
		return made{}
	})
	f := analyze(t, run)
	good, planted := scenarioOf(t, f, "good"), scenarioOf(t, f, "planted")
	if good.Verdict != record.VerdictPass || !good.AsExpected || planted.Verdict != record.VerdictFail || !planted.AsExpected || len(planted.Trials) != 2 {
		t.Errorf("verdicts %s and %s of %d trials", good.Verdict, planted.Verdict, len(planted.Trials))
	}
	if a := planted.Trials[0].Assertions[0]; a.Outcome != record.VerdictFail || !strings.Contains(a.Detail, `window("gone").error_share is 50%`) {
		t.Errorf("assertion: %+v", a)
	}
	if a := planted.Trials[0].Assertions[1]; a.Outcome != record.VerdictPass || a.Time != "until gone" {
		t.Errorf("assertion: %+v", a)
	}
	// One trial of two passes although it should fail.
	run = scenarioRun(t, fourSeconds, 2, func(cell record.Cell, block int) made {
		if cell[study.FactorVariant] == "planted" && block == 0 {
			return made{fail: failIn(1000, 1500, ledger.OutcomeStatus, 5)}
		}
		return made{}
	})
	if s := scenarioOf(t, analyze(t, run), "planted"); s.Verdict != record.VerdictPass || s.AsExpected {
		t.Errorf("verdict %s, as expected %v", s.Verdict, s.AsExpected)
	}
}

func TestScenarioInconclusive(t *testing.T) {
	for name, c := range map[string]struct {
		m    made
		want string
	}{
		"step not proven": {made{events: func(t *record.Trial) []record.Event {
			out := inTime(t)
			out[0].WatchedNS, out[0].Error = 0, "not proven: the endpoint is still there"
			return out
		}}, `step "gone": not proven: the endpoint is still there`},
		"step missing": {made{events: func(t *record.Trial) []record.Event { return inTime(t)[:1] }}, `step "sick" did not happen`},
		"invalid trial": {made{spoil: func(t *record.Trial) {
			t.Validity = record.Validity{Checks: []record.Check{{Name: "schedule_lag", Detail: "9 ms"}}}
		}}, "the trial is not valid: schedule lag: 9 ms"},
		"ended early": {made{spoil: func(t *record.Trial) { t.Scenario.EndedBy = "interrupt" }}, "the timeline ended early: interrupt"},
	} {
		t.Run(name, func(t *testing.T) {
			s := scenarioOf(t, analyze(t, scenarioRun(t, fourSeconds, 1, each(c.m))), "good")
			if s.Verdict != record.VerdictInconclusive || s.AsExpected || !slices.Contains(s.Trials[0].Why, c.want) {
				t.Errorf("verdict %s: %q", s.Verdict, s.Trials[0].Why)
			}
		})
	}
	run := scenarioRun(t, fourSeconds, 1, each(made{}))
	run.Requests = nil
	if s := scenarioOf(t, analyze(t, run), "good"); s.Verdict != record.VerdictInconclusive || s.Trials[0].Assertions[0].Outcome != record.VerdictInconclusive {
		t.Errorf("a run without requests: %+v", s.Trials)
	}
}

func TestScenarioFindings(t *testing.T) {
	run := scenarioRun(t, fourSeconds, 2, func(_ record.Cell, block int) made {
		return made{fail: failIn(1000, 1100+100*int64(block), ledger.OutcomeStatus, 5), proxies: true}
	})
	f := analyze(t, run)
	cell := record.Cell{study.FactorVariant: "good"}
	for name, want := range map[string]float64{
		"error_share": 0.0375, "failed_requests": 15, "attempt_ratio": 1.075, "hidden_failures": 30, "longest_failing_run": 150_000,
		"time_to_detect": 5000, "time_to_recover": 145_000, "time_to_eject": 200_000, "cpu_control_plane": 100, "cpu_client_proxy": 200, "memory_control_plane": 100e6,
		"latency_p50": 10_000,
	} {
		if x := get(t, f, name, cell); math.Abs(x.Estimate-want) > 2e-3*want || x.Unit == "" {
			t.Errorf("%s is %v %s, want %v", name, x.Estimate, x.Unit, want)
		}
	}
	if of := scenarioOf(t, f, "good").Trials; len(of) != 4 || of[0].ErrorShare != 0.025 || of[3].ErrorShare != 0.05 {
		t.Errorf("the trials of two blocks lost %+v", of)
	}
	if x := get(t, f, "unreconciled_requests", cell); x.Verdict != record.VerdictMeasured || x.Estimate != 0 {
		t.Errorf("unreconciled requests: %+v", x)
	}
}

// The rate of answers in a window covers those that arrived in it, whenever their requests were
// due: a backlog that is worked off later does not belong to the window that it is from. Latency
// and failures cover the requests due in the window.
func TestScenarioAnswersInAWindow(t *testing.T) {
	run := scenarioRun(t, fourSeconds, 1, each(made{slow: func(due int64) int64 { // from 2.0 s to 2.5 s all are held, until 3 s
		if due >= 2000*ms && due < 2500*ms {
			return 3000*ms - due
		}
		return 0
	}}))
	s := scenarioOf(t, analyze(t, run), "good")
	want := map[string]struct{ requests, answered, answers int64 }{"sick": {50, 50, 1}, "sick.end": {150, 150, 199}}
	for _, w := range s.Windows {
		seconds := w.ToS - w.FromS
		if c, ok := want[w.Name]; ok && (w.Requests < c.requests-1 || w.Requests > c.requests+1 || w.Answered != w.Requests || math.Abs(w.AnswerRPS*seconds-float64(c.answers)) > 1.5) {
			t.Errorf("%s: %d due, %d answered, %.0f answers came", w.Name, w.Requests, w.Answered, w.AnswerRPS*seconds)
		}
		delete(want, w.Name)
	}
	if len(want) > 0 {
		t.Errorf("no window %v of %+v", want, s.Windows)
	}
	held, err := (analysis.Kinds{Kind()}).Analyze(run, study.Expr{Text: "rate < 101.0", Timed: true, Until: "sick"}, study.Expr{Text: "rate > 140.0", Timed: true, After: "sick", Within: 15e8})
	must.OK(t, err)
	for _, a := range scenarioOf(t, held, "good").Trials[0].Assertions {
		if strings.HasPrefix(a.Expr, "rate") && a.Outcome != "pass" {
			t.Errorf("%s: %s: %s", a.Expr, a.Outcome, a.Detail)
		}
	}
}

func TestScenarioAssertions(t *testing.T) {
	// 10 of 100 requests fail in each second from 1.2 s to 2.6 s.
	run := scenarioRun(t, fourSeconds, 1, each(made{fail: func(due int64) (string, int64) {
		if due >= 1200*ms && due < 2600*ms && due%(100*ms) == 0 {
			return ledger.OutcomeStatus, ms
		}
		return "", 0
	}, proxies: true}))
	for _, c := range []struct {
		e      study.Expr
		want   string
		detail string
	}{
		{study.Expr{Text: `window("start").failed == 0 && window("gone").error_share < 0.05`}, "fail", `window("gone").error_share is 8.0%`},
		{study.Expr{Text: `step("gone").detect < 250 && step("sick").recover < 1000.0`}, "pass", `step("gone").detect is 201 ms`},
		{study.Expr{Text: `step("gone").eject < 1000`}, "fail", `step("gone").eject is never`},
		{study.Expr{Text: `window("gone").error_share / window("start").error_share < 2.0`}, "fail", `window("gone").error_share / window("start").error_share is infinite`},
		{study.Expr{Text: `expected.capacity > 2.0 * total.rate && step("gone").begin > 0.5`}, "pass", `expected.capacity is 400/s, 2.0 * total.rate is 192.5, step("gone").begin is 1.00`},
		{study.Expr{Text: `step("gone").detect / step("sick").recover < 9.0`}, "pass", `step("gone").detect / step("sick").recover is 0.`},
		{study.Expr{Text: `ledger.reconciled && ledger.flags["UF"] == 14 && ledger.services["bar"] == total.failed`}, "pass", `ledger.flags["UF"] is 14`},
		{study.Expr{Text: `total.attempts <= expected.attempts && expected.spare > 2.0`}, "pass", `expected.attempts is 3`},
		{study.Expr{Text: `windows.all(w, w.error_share < 0.5) && steps.exists(s, s.failed > 7)`}, "pass", ""},
		{study.Expr{Text: `window("gone").ready["bar"] == 1`}, "pass", ""},
		{study.Expr{Text: "error_share == 0.0", Timed: true, Until: "gone"}, "pass", "held from 0.00 s to 1.00 s"},
		{study.Expr{Text: "error_share == 0.0", Timed: true}, "fail", "false at 1.21 s: error_share 1.0%; false for 2.30 s of 3.01 s"},
		{study.Expr{Text: "error_share < 0.05", Timed: true, After: "gone", For: 1e9, Within: 15e8}, "fail", "not true for 1s by 2.50 s (1.50 s after gone)"},
		{study.Expr{Text: "error_share < 0.05", Timed: true, After: "sick", For: 5e8, Within: 15e8}, "pass", "true 1.11 s after sick and for 500ms then: error_share from 0% to 4.0%"},
		{study.Expr{Text: "error_share < 0.05", Timed: true, After: "sick", For: 5e9}, "fail", "but only"},
		{study.Expr{Text: "ejected >= 1", Timed: true, After: "sick", Within: 3e8}, "pass", "true 0.30 s after sick"},
		{study.Expr{Text: `ejected("bar") >= 1 && ready("bar") == 1`, Timed: true, After: "gone", Until: "sick", Within: 9e8}, "fail", "it never was"},
		{study.Expr{Text: "answered_p99 < 10.5 && rate > 80.0", Timed: true}, "pass", ""},
		{study.Expr{Text: "latency_p99 < 10.5", Timed: true}, "fail", "latency_p99 never"},
		{study.Expr{Text: "requests == 100", Timed: true, After: "sick", Until: "gone"}, "inconclusive", "no time between"},
	} {
		if a := asked(t, run, c.e); a.Outcome != c.want || !strings.Contains(a.Detail, c.detail) {
			t.Errorf("%s (%s): %s, %q; want %s, %q", c.e.Text, a.Time, a.Outcome, a.Detail, c.want, c.detail)
		}
	}
	got, err := (analysis.Kinds{Kind()}).Analyze(run, study.Expr{Text: `validity.invalid == 0`})
	if err != nil || len(got.Assertions) != 1 || !got.Assertions[0].Passed {
		t.Errorf("an assertion about findings: %+v, %v", got.Assertions, err)
	}
}

func TestScenarioAssertionsChecked(t *testing.T) {
	s, err := study.Parse([]byte(fourSeconds), "study.yaml", nil)
	must.OK(t, err)
	must.OK(t, (analysis.Kinds{Kind()}).CheckStudy(s))
	for _, c := range []struct{ expr, want string }{
		{`{expr: error_shar < 0.1}`, "undeclared reference"},
		{`window("gnoe").failed == 0`, `there is no window "gnoe"`},
		{`step("sick.end").failed == 0`, `there is no step "sick.end"`},
		{`window("gone").errors == 0`, "undefined field"},
		{`window("gone").failed`, "not true or false"},
		{`window("gone").failed == 0 && finding("error_share").high < 1.0`, "it mixes the run's findings with a single trial"},
		{`finding("nothing").high < 1.0`, "unknown finding"},
		{`{expr: window("gone").failed == 0}`, "undeclared reference"},
	} {
		text := strings.Replace(fourSeconds, `- window("gone").error_share < 0.05`, "- "+c.expr, 1)
		s, err := study.Parse([]byte(text), "study.yaml", nil)
		if err == nil {
			err = (analysis.Kinds{Kind()}).CheckStudy(s)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || errs.Code(err) != errs.CodeUsage || !strings.Contains(err.Error(), "study.yaml:") {
			t.Errorf("%s: %v, want %q", c.expr, err, c.want)
		}
	}
	if _, err := CompileCondition("error_share > 0.01 && ejected == 0"); err != nil {
		t.Error(err)
	}
	if _, err := CompileCondition("errors > 1"); err == nil || errs.Code(err) != errs.CodeUsage {
		t.Errorf("a condition of unknown names: %v", err)
	}
	c, err := CompileCondition(`latency_p99 > 100.0 || ready("bar") < 2`)
	must.OK(t, err)
	for _, m := range []record.Moment{{Latency: record.LatencyAt(0.99, 200_000), Ready: map[string]int{"bar": 2}}, {Ready: map[string]int{"bar": 1}}, {Ready: map[string]int{"bar": 2}}} {
		if held, err := c.Holds(m); err != nil || held != (m.Latency.At(0.99) > 100_000 || m.Ready["bar"] < 2) {
			t.Errorf("%+v: %v, %v", m, held, err)
		}
	}
}
