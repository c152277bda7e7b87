package app

import (
	"errors"
	"fmt"
	"strings"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/record"
)

// Judgement returns nil, or an error with the exit code of these findings: 3 if an assertion
// failed or a verdict is not the one the study expects; 4 if a verdict is inconclusive, or if
// there are no valid trials, or too few to compare anything.
func Judgement(f record.Findings) error {
	failed, first := 0, ""
	for _, a := range f.Assertions {
		if !a.Passed {
			if failed == 0 {
				first = a.Expr + ": " + a.Detail
			}
			failed++
		}
	}
	if failed > 0 {
		return errs.WithCode(fmt.Errorf("%d of %d assertions failed; the first: %s", failed, len(f.Assertions), first), errs.CodeAssertion)
	}
	if err := scenarioJudgement(f); err != nil {
		return err
	}
	if f.Validity.Valid == 0 {
		return errs.WithHint(errs.WithCode(errors.New("no trial of the run is valid"), errs.CodeInvalid), hintInvalid)
	}
	if f.Tuning != nil {
		return tuningJudgement(f.Tuning)
	}
	compared, answered := 0, 0
	for _, finding := range f.Findings {
		if finding.Against != nil {
			compared++
			if finding.Verdict != record.VerdictInvalid {
				answered++
			}
		}
	}
	if compared > 0 && answered == 0 && !judged(f) {
		return errs.WithHint(errs.WithCode(errors.New("the run has no answer: each comparison has too few valid trials"), errs.CodeInvalid), hintInvalid)
	}
	return nil
}

const hintInvalid = "see validity in the report for the reason; `meshtrial doctor` shows what disturbs this machine"

// scenarioJudgement returns an error with the exit code that the verdicts require: 3 if one is
// not what the study expects of its cell, 4 if one is inconclusive.
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
		return errs.WithHint(errs.WithCode(fmt.Errorf("the verdict of %s is inconclusive", doubtful), errs.CodeInvalid), "see the tables of verdicts and steps in the report for the reason")
	}
	return nil
}

// judged reports whether trials reached verdicts through assertions. If so, one trial of each
// cell is enough for an answer.
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

// reason returns why the first trial without a verdict has none.
func reason(s *record.ScenarioSummary) string {
	for _, t := range s.Trials {
		if t.Verdict == record.VerdictInconclusive && len(t.Why) > 0 {
			return " (" + t.Why[0] + ")"
		}
	}
	return ""
}

// tuningJudgement returns an error with the exit code of a tuning: 3 if the comparison finds that
// the chosen setting violates a constraint; 4 if the comparison is inconclusive, the search has
// not ended, or no trial has the objective. It is a valid answer that no setting beats the one in
// use.
func tuningJudgement(t *record.Tuning) error {
	switch {
	case t.Stop == "":
		return errs.WithCode(errors.New("the search has not finished: nothing is recommended yet"), errs.CodeInvalid)
	case t.Lacking != "":
		return errs.WithHint(errs.WithCode(fmt.Errorf("the tuning has no answer: %s", t.Stop), errs.CodeInvalid),
			"see docs/study.md for what %s applies to; omit it, or use changes that have it", t.Lacking)
	case len(t.Recommended) == 0:
		return nil
	}
	for _, k := range t.Kept {
		if k.Verdict == record.TunedBroken {
			return errs.WithHint(errs.WithCode(fmt.Errorf("the setting chosen by the search violates the constraint %s: %s", k.Constraint, k.Says), errs.CodeAssertion),
				"the report's Pareto front has others; a stricter --constraint keeps the search further away")
		}
	}
	if t.Mends() != "" {
		return nil
	}
	if t.Verdict != record.VerdictReal && t.Verdict != record.VerdictNoEffect {
		return errs.WithHint(errs.WithCode(fmt.Errorf("comparison of the chosen setting with the one in use: %s", strings.ReplaceAll(orUnknown(t.Verdict), "_", " ")), errs.CodeInvalid),
			"--confirm N compares it in more blocks")
	}
	return nil
}

func orUnknown(verdict string) string {
	switch verdict {
	case "":
		return "not compared yet"
	case record.VerdictInvalid:
		return "unknown"
	}
	return verdict
}
