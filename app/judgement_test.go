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
	// Verdicts answer the question though one trial of each compares nothing.
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
	// All trials invalid: what is said is the verdict's reason.
	err := Judgement(record.Findings{Cells: []record.CellSummary{cell("good", record.VerdictInconclusive, record.VerdictPass, "the trial is not valid")}})
	if errs.Code(err) != errs.CodeInvalid {
		t.Errorf("%v, code %d", err, errs.Code(err))
	}
}
