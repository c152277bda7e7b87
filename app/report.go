package app

import (
	"context"
	"fmt"
	"strings"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/kinds"
	"github.com/meshtrial/meshtrial/kinds/analyses"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/store"
	"github.com/meshtrial/meshtrial/run/verdict"
	"github.com/meshtrial/meshtrial/study"
)

// LoadRun reads a run directory and warns about damage in it.
func LoadRun(ctx context.Context, dir string, warn func(string)) (record.Run, error) {
	run, notes, err := store.Load(ctx, dir)
	for _, note := range notes {
		warn(dir + ": " + note)
	}
	return run, err
}

// Analyzed is a run as read from its directory, and its findings.
type Analyzed struct {
	Dir      string
	Run      record.Run
	Notes    []string // damage in the directory
	Findings record.Findings
}

// Analyze reads a run directory and analyzes it. A run without trials has no findings.
func Analyze(ctx context.Context, dir string) (a Analyzed, err error) {
	a.Dir = dir
	if a.Run, a.Notes, err = store.Load(ctx, dir); err == nil && len(a.Run.Trials) > 0 {
		a.Findings, err = analyses.All().Analyze(a.Run)
	}
	return a, err
}

// ReportOptions says which run to analyze, and how.
type ReportOptions struct {
	Dir string // the run directory
	// Assert lists CEL expressions over the findings that must hold, in addition to the study's
	// own.
	Assert []string
	// Sets overrides the mesh to size or the prices: sizing.FIELD=VALUE, money.FIELD=VALUE.
	Sets []string
	// Rejudge judges all trials again by the current rules, with the bounds in Limits
	// (NAME=VALUE).
	Rejudge bool
	Limits  []string
	// Warn is called for damage in the run, and if the rules have changed since it.
	Warn func(text string)
}

// Report analyzes a recorded run, complete or not. [Judgement] says whether the findings are as
// expected.
func Report(ctx context.Context, o ReportOptions) (record.Findings, error) {
	var exprs []study.Expr
	for _, text := range o.Assert {
		exprs = append(exprs, study.Expr{Text: text, Pos: study.Pos{File: "--assert"}})
	}
	run, err := LoadRun(ctx, o.Dir, o.Warn)
	if err == nil {
		run, err = o.rejudge(run)
	}
	if err == nil {
		run, err = restate(run, o.Sets)
	}
	if err != nil {
		return record.Findings{}, err
	}
	return analyses.All().Analyze(run, exprs...)
}

// rejudge judges the trials of a run again, if o.Rejudge is set. Otherwise it warns if the rules
// have changed since the run.
func (o *ReportOptions) rejudge(run record.Run) (record.Run, error) {
	kind, err := kinds.OfRun(run.Header)
	if !o.Rejudge {
		if len(o.Limits) > 0 {
			return run, errs.WithHint(errs.Usage("--limit requires --rejudge"), "add --rejudge")
		}
		if words := verdict.Outdated(run.Header.Rules, kind.Limits); words != "" && err == nil {
			o.Warn(fmt.Sprintf("run %s: %s; --rejudge judges them by the current rules", run.Header.RunID, words))
		}
		return run, nil
	}
	if err != nil {
		return run, err
	}
	limits, err := verdict.ParseLimits(o.Limits, kind.Limits)
	if err != nil {
		return run, err
	}
	out, notes, err := kinds.Rejudge(run, limits, func(name string) func(mesh.Evidence) []record.Check {
		return Mesh(name, lab.Images{}).Verify
	})
	for _, note := range notes {
		o.Warn(note)
	}
	return out, err
}

// restate returns the run with the mesh to size, or the prices, of its study changed. Measured
// values stay the same.
func restate(run record.Run, sets []string) (record.Run, error) {
	if len(sets) == 0 {
		return run, nil
	}
	for _, set := range sets {
		path, value, _ := strings.Cut(set, "=")
		if section, _, _ := strings.Cut(strings.TrimSpace(path), "."); section != "sizing" && section != "money" {
			return run, errs.WithHint(errs.Usage("--set %s: a report cannot change what was measured", set),
				"--set sizing.FIELD=VALUE changes the mesh to size, --set money.FIELD=VALUE the prices")
		}
		if strings.TrimSpace(value) == "" {
			return run, errs.WithHint(errs.Usage("--set %s: want FIELD=VALUE", set),
				"for example --set sizing.pods=200, or --set money.core_month=25 --set money.gb_month=3")
		}
	}
	s, err := study.ParseStored(run.StudyYAML, "the run's study.yaml", sets)
	if err != nil {
		return run, err
	}
	run.StudyYAML = s.Marshal()
	return run, nil
}
