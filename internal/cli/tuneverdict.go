package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/meshtrial/meshtrial/errs"
	"github.com/meshtrial/meshtrial/record"
)

// tuningJudgement is the exit code that a tuning asks for: 3 if the comparison finds
// that the setting which the search chose breaks a constraint, 4 if it is inconclusive
// or the search has not ended. That nothing is better than the setting in use is an
// answer.
func tuningJudgement(t *record.Tuning) error {
	switch {
	case t.Stop == "":
		return errs.WithCode(errors.New("the search has not ended: nothing is recommended yet"), errs.CodeInvalid)
	case len(t.Recommended) == 0:
		return nil
	}
	for _, k := range t.Kept {
		if k.Verdict == record.TunedBroken {
			return errs.WithHint(errs.WithCode(fmt.Errorf("the setting that the search chose breaks the constraint %s: %s", k.Constraint, k.Says), errs.CodeAssertion),
				"the report's Pareto front has others; a stricter --constraint keeps the search further away")
		}
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

// settingsFile is where a run directory has the setting that a tuning recommends.
const settingsFile = "recommended.yaml"

// settingsOf are the manifests of a recommended setting, one document each; "" where
// nothing is recommended. What is to be merged into values says so in its comment.
func settingsOf(t *record.Tuning) string {
	if t == nil || t.Refuted() {
		return ""
	}
	var documents []string
	for _, s := range t.Settings {
		if s.YAML != "" {
			documents = append(documents, fmt.Sprintf("# %s: %s, now %s\n%s", s.Lever, s.To, s.From, s.YAML))
		}
	}
	return strings.Join(documents, "---\n")
}
