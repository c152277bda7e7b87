package app

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/record"
)

func TestVerdictsGiveExitCodes(t *testing.T) {
	cell := func(label, verdict, expected string, why ...string) record.CellSummary {
		return record.CellSummary{Label: label, Scenario: &record.ScenarioSummary{Verdict: verdict, Expected: expected, AsExpected: verdict == expected,
			Trials: []record.TrialVerdict{{Verdict: verdict, Why: why}}}}
	}
	good, planted := cell("good", record.VerdictPass, record.VerdictPass), cell("planted", record.VerdictFail, record.VerdictFail)
	for name, c := range map[string]struct {
		cells []record.CellSummary
		code  int
		says  string
	}{
		"as expected":       {[]record.CellSummary{good, planted}, errs.CodeOK, ""},
		"fails":             {[]record.CellSummary{cell("good", record.VerdictFail, record.VerdictPass), planted}, errs.CodeAssertion, "1 of 2 verdicts are not the expected ones: good: fail, expected pass"},
		"defect not found":  {[]record.CellSummary{good, cell("planted", record.VerdictPass, record.VerdictFail)}, errs.CodeAssertion, "planted: pass, expected fail"},
		"inconclusive":      {[]record.CellSummary{good, cell("planted", record.VerdictInconclusive, record.VerdictFail, "step \"gone\" was not proven")}, errs.CodeInvalid, `planted (step "gone" was not proven)`},
		"odd before doubts": {[]record.CellSummary{cell("good", record.VerdictInconclusive, record.VerdictPass), cell("planted", record.VerdictPass, record.VerdictFail)}, errs.CodeAssertion, "1 of 2"},
	} {
		err := Judgement(record.Findings{Cells: c.cells, Validity: record.ValiditySummary{Valid: 1}})
		if errs.Code(err) != c.code || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, code %d, want %d", name, err, errs.Code(err), c.code)
		}
	}
	// Verdicts answer the question even though one trial of each cell compares nothing.
	few := []record.Finding{{Name: "error_share", Against: record.Cell{}, Verdict: record.VerdictInvalid}}
	asserted := good
	asserted.Scenario.Trials[0].Assertions = []record.ScenarioAssertion{{Expr: "total.failed == 0", Outcome: record.VerdictPass}}
	if err := Judgement(record.Findings{Cells: []record.CellSummary{asserted}, Findings: few, Validity: record.ValiditySummary{Valid: 1}}); err != nil {
		t.Error(err)
	}
	asserted.Scenario.Trials[0].Assertions = nil
	if err := Judgement(record.Findings{Cells: []record.CellSummary{asserted}, Findings: few, Validity: record.ValiditySummary{Valid: 1}}); errs.Code(err) != errs.CodeInvalid {
		t.Errorf("nothing is compared or asserted: %v", err)
	}
	// If all trials are invalid, the error gives the verdict's reason.
	err := Judgement(record.Findings{Cells: []record.CellSummary{cell("good", record.VerdictInconclusive, record.VerdictPass, "the trial is not valid")}})
	if errs.Code(err) != errs.CodeInvalid {
		t.Errorf("%v, code %d", err, errs.Code(err))
	}
}

// TestJudgement: if the valid trials of a run leave every comparison without a figure, the run
// answers nothing and its exit code says so.
func TestJudgement(t *testing.T) {
	against := record.Cell{"sidecars": "none"}
	run := func(valid int, verdicts ...string) record.Findings {
		f := record.Findings{Validity: record.ValiditySummary{Trials: 15, Valid: valid}}
		f.Findings = append(f.Findings, record.Finding{Verdict: record.VerdictMeasured})
		for _, v := range verdicts {
			f.Findings = append(f.Findings, record.Finding{Verdict: v, Against: against})
		}
		return f
	}
	tuned := func(t record.Tuning) record.Findings {
		f := run(15, record.VerdictReal)
		f.Tuning = &t
		return f
	}
	set := record.Cell{"debounce_after": "1s"}
	failed := run(15, record.VerdictReal)
	failed.Assertions = []record.Assertion{{Expr: "false"}}
	for _, c := range []struct {
		findings record.Findings
		want     int
	}{
		{run(15, record.VerdictReal, record.VerdictInvalid), errs.CodeOK},
		{run(15, record.VerdictNoEffect), errs.CodeOK},
		{run(15), errs.CodeOK}, // compares nothing
		{run(10, record.VerdictInvalid, record.VerdictInvalid), errs.CodeInvalid},
		{run(0), errs.CodeInvalid},
		{failed, errs.CodeAssertion},
		{tuned(record.Tuning{}), errs.CodeInvalid}, // not finished
		{tuned(record.Tuning{Stop: "x"}), errs.CodeOK},
		{tuned(record.Tuning{Stop: "x", Lacking: "staleness"}), errs.CodeInvalid},
		{tuned(record.Tuning{Stop: "x", Recommended: set, Verdict: record.VerdictReal}), errs.CodeOK},
		{tuned(record.Tuning{Stop: "x", Recommended: set, Verdict: record.VerdictInconclusive}), errs.CodeInvalid},
		{tuned(record.Tuning{Stop: "x", Recommended: set, Verdict: record.VerdictInconclusive, Kept: []record.TunedBound{{Constraint: "cpu<=-5%", Verdict: record.TunedMet, Present: record.TunedBroken}}}), errs.CodeOK},
		{tuned(record.Tuning{Stop: "x", Recommended: set, Verdict: record.VerdictReal, Kept: []record.TunedBound{{Verdict: record.TunedBroken}}}), errs.CodeAssertion},
	} {
		if got := errs.Code(Judgement(c.findings)); got != c.want {
			t.Errorf("%+v: exit code %d, want %d", c.findings, got, c.want)
		}
	}
}
