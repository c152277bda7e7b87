package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/record"
)

// tuningJudgement is the exit code that a tuning asks for: 3 if the comparison finds
// that the setting which the search chose breaks a constraint, 4 if it is inconclusive,
// the search has not ended, or no trial has what was asked for. That nothing is better than the setting in use is an
// answer.
func tuningJudgement(t *record.Tuning) error {
	switch {
	case t.Stop == "":
		return errs.WithCode(errors.New("the search has not ended: nothing is recommended yet"), errs.CodeInvalid)
	case t.Lacking != "":
		return errs.WithHint(errs.WithCode(fmt.Errorf("the tuning has no answer: %s", t.Stop), errs.CodeInvalid),
			"docs/study.md says what %s is of; leave it out, or take changes that have it", t.Lacking)
	case len(t.Recommended) == 0:
		return nil
	}
	for _, k := range t.Kept {
		if k.Verdict == record.TunedBroken {
			return errs.WithHint(errs.WithCode(fmt.Errorf("the setting that the search chose breaks the constraint %s: %s", k.Constraint, k.Says), errs.CodeAssertion),
				"the report's Pareto front has others; a stricter --constraint keeps the search further away")
		}
	}
	if t.Mends() != "" {
		return nil
	}
	if t.Verdict != record.VerdictReal && t.Verdict != record.VerdictNoEffect {
		return errs.WithHint(errs.WithCode(fmt.Errorf("whether the setting that the search chose is better is %s", strings.ReplaceAll(orUnknown(t.Verdict), "_", " ")), errs.CodeInvalid),
			"--confirm N compares it in more blocks")
	}
	return nil
}

func orUnknown(verdict string) string {
	switch verdict {
	case "":
		return "not compared yet"
	case record.VerdictInvalid:
		return "not known"
	}
	return verdict
}
