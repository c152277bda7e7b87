package app

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/analysis/comparison"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/shell"
	"github.com/meshtrial/meshtrial/kinds/analyses"
	"github.com/meshtrial/meshtrial/record"
)

// Compare compares the runs in the directories after with those in before.
func Compare(ctx context.Context, before, after []string, how comparison.CompareOptions,
	warn func(string)) (comparison.Comparison, error) {
	a, err := loadFigures(ctx, warn, before...)
	if err != nil {
		return comparison.Comparison{}, err
	}
	b, err := loadFigures(ctx, warn, after...)
	if err != nil {
		return comparison.Comparison{}, err
	}
	return comparison.Compare(a, b, how)
}

// loadFigures reads runs one after the other and keeps only the figures that comparisons need.
func loadFigures(ctx context.Context, warn func(string), dirs ...string) ([]*analysis.RunFigures, error) {
	var out []*analysis.RunFigures
	for _, dir := range dirs {
		run, err := LoadRun(ctx, dir, warn)
		if err != nil {
			return nil, err
		}
		r, err := analyses.All().Figures(run)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

// CompareJudgement returns nil, or an error with the exit code of a comparison: 3 if side B is
// worse, 4 if the comparison is inconclusive.
func CompareJudgement(c comparison.Comparison, before, after []string) error {
	switch c.Verdict {
	case record.VerdictWorse:
		worse := "run B is worse"
		if len(before)+len(after) > 2 {
			worse = "side B is worse"
		}
		return errs.WithCode(errors.New(worse), errs.CodeAssertion)
	case record.VerdictInconclusive:
		return inconclusive(c, before, after)
	}
	return nil
}

// inconclusive returns the error for a comparison that is inconclusive.
func inconclusive(c comparison.Comparison, before, after []string) error {
	err := errors.New("the comparison is inconclusive")
	if c.Why != "" {
		err = fmt.Errorf("%w: %s", err, c.Why)
	}
	err = errs.WithCode(err, errs.CodeInvalid)
	lacking := "RUN"
	switch {
	case c.Lacking == "" && c.Basis == comparison.BasisRuns:
		return errs.WithHint(err, "more runs narrow the intervals (%s); a wider --margin is easier to meet",
			comparison.Takes)
	case c.Lacking == "":
		return errs.WithHint(err, "more blocks narrow the intervals; a wider --margin is easier to meet")
	case c.Lacking == comparison.LackingA && len(before) == 1:
		lacking = before[0]
	case c.Lacking == comparison.LackingB && len(after) == 1:
		lacking = after[0]
	}
	return errs.WithHint(err, "`meshtrial report %s` says why", shell.Quote(filepath.Clean(lacking)))
}
