package cli

import (
	"fmt"
	"strings"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/record"
)

// scenarioJudgement is the exit code that verdicts ask for: 3 if one is not
// what the study expects of its cell, 4 if one is inconclusive.
func scenarioJudgement(f record.Findings) error {
	cells, doubtful := 0, ""
	var odd []string
	for _, c := range f.Cells {
		s := c.Scenario
		if s == nil {
			continue
		}
		cells++
		switch {
		case s.AsExpected:
		case s.Verdict != record.VerdictInconclusive:
			odd = append(odd, fmt.Sprintf("%s: %s, expected %s", c.Label, s.Verdict, s.Expected))
		case doubtful == "":
			doubtful = c.Label + reason(s)
		}
	}
	switch {
	case len(odd) > 0:
		return errs.WithCode(fmt.Errorf("%d of %d verdicts are not the expected ones: %s", len(odd), cells, strings.Join(odd, "; ")), errs.CodeAssertion)
	case doubtful != "":
		return errs.WithHint(errs.WithCode(fmt.Errorf("the verdict of %s is inconclusive", doubtful), errs.CodeInvalid), "the report's tables of verdicts and steps say why")
	}
	return nil
}

// judged says whether trials came to verdicts by assertions of their own: those
// answer the question, one trial of each cell is enough.
func judged(f record.Findings) bool {
	for _, c := range f.Cells {
		if c.Scenario == nil {
			continue
		}
		for _, t := range c.Scenario.Trials {
			if len(t.Assertions) > 0 {
				return true
			}
		}
	}
	return false
}

// reason is why the first trial without a verdict has none.
func reason(s *record.ScenarioSummary) string {
	for _, t := range s.Trials {
		if t.Verdict == record.VerdictInconclusive && len(t.Why) > 0 {
			return " (" + t.Why[0] + ")"
		}
	}
	return ""
}
