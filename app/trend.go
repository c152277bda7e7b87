package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/analysis/comparison"
	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/store"
)

// TrendOptions says which runs to follow over time, and how to join them.
type TrendOptions struct {
	Dir   string // the folder of the runs
	Study string // the name of a study; "" for all
	How   comparison.CompareOptions
	Warn  func(text string) // about damaged runs
}

// Trend finds where the level of a finding changes over the runs in a folder. It names the runs
// that it cannot read.
func Trend(ctx context.Context, o TrendOptions) (comparison.Trend, error) {
	dirs, err := runsIn(o.Dir, o.Warn)
	if err != nil {
		return comparison.Trend{}, err
	}
	return o.of(ctx, dirs)
}

// of returns the trend of the runs in dirs.
func (o *TrendOptions) of(ctx context.Context, dirs []string) (comparison.Trend, error) {
	runs, left, err := o.read(ctx, dirs)
	if err != nil {
		return comparison.Trend{}, err
	}
	trend, err := comparison.MakeTrend(runs, o.How)
	if err != nil {
		return trend, trendHint(err, runs, o.Study)
	}
	trend.LeftOut = append(left, trend.LeftOut...)
	return trend, nil
}

// TrendJudgement returns nil, or an error with the exit code of a trend: 3 if a change for the
// worse remains, 4 if the trend is inconclusive.
func TrendJudgement(trend comparison.Trend) error {
	switch trend.Verdict {
	case record.VerdictWorse:
		return errs.WithCode(errors.New("a change for the worse remains"), errs.CodeAssertion)
	case record.VerdictInconclusive:
		return errs.WithHint(errs.WithCode(fmt.Errorf("the trend is inconclusive: %s", trend.Why), errs.CodeInvalid),
			"fix runs without valid trials first, then record more runs of the same study; `meshtrial compare BEFORE... --with AFTER...` needs fewer")
	}
	return nil
}

// read reads runs one after the other, only those of o.Study if it is set, and reports those that
// cannot be read.
func (o *TrendOptions) read(ctx context.Context, dirs []string) (runs []*analysis.RunFigures,
	left []comparison.LeftOut, err error) {
	var others []string // studies of runs that are skipped
	for _, dir := range dirs {
		if o.Study != "" {
			if c, err := store.Read(dir); err == nil && c.Header.Study != o.Study {
				if !slices.Contains(others, c.Header.Study) {
					others = append(others, c.Header.Study)
				}
				continue
			}
		}
		figures, err := loadFigures(ctx, o.Warn, dir)
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		if err != nil {
			left = append(left, comparison.LeftOut{Run: dir, Why: err.Error()})
			continue
		}
		runs = append(runs, figures...)
	}
	if len(runs) == 0 && len(others) > 0 {
		return nil, nil, errs.WithHint(errs.Usage("none of %s ran study %q", words.Plural(len(dirs), "run"), o.Study),
			"%s", errs.Suggest(o.Study, others))
	}
	return runs, left, nil
}

// trendHint adds to err how to select a single study, if the runs are of several.
func trendHint(err error, runs []*analysis.RunFigures, name string) error {
	var names []string
	for _, r := range runs {
		if !slices.Contains(names, r.Header.Study) {
			names = append(names, r.Header.Study)
		}
	}
	if len(names) < 2 || name != "" {
		return err
	}
	return errs.WithHint(err, "--study %s selects one study; %s", names[0], errs.Hint(err))
}

// runFiles lists files any one of which shows that a folder is a run, complete or not.
var runFiles = []string{store.FileHeader, store.FileTrials, store.FileResolved}

// runsIn is runsBelow for a folder that must contain runs.
func runsIn(dir string, warn func(text string)) ([]string, error) {
	if isRun(dir) {
		return nil, errs.WithHint(errs.Usage("%s is a run, not a folder of runs", dir),
			"give the folder that contains the runs: %s", filepath.Dir(filepath.Clean(dir)))
	}
	out, err := runsBelow(dir, warn)
	if err != nil {
		return nil, errs.WithHint(errs.WithCode(err, errs.CodeUsage), "give the folder that contains the runs")
	}
	if len(out) == 0 {
		return nil, errs.WithHint(errs.Usage("there is no run in %s", dir), "give the folder that contains the runs")
	}
	return out, nil
}

// runsBelow lists the run directories in a folder and one level deeper, in those of its folders
// that are not runs. It warns about folders that it cannot read and skips them.
func runsBelow(dir string, warn func(text string)) ([]string, error) {
	var out []string
	below, err := folders(dir)
	if err != nil {
		return nil, err
	}
	for _, sub := range below {
		if isRun(sub) {
			out = append(out, sub)
			continue
		}
		deeper, err := folders(sub)
		if err != nil {
			warn("skipped: " + err.Error())
			continue
		}
		out = append(out, slices.DeleteFunc(deeper, func(d string) bool { return !isRun(d) })...)
	}
	return out, nil
}

func isRun(dir string) bool {
	return slices.ContainsFunc(runFiles, func(name string) bool {
		info, err := os.Stat(filepath.Join(dir, name))
		return err == nil && info.Mode().IsRegular()
	})
}

// folders lists the folders in dir. It follows links and skips hidden folders.
func folders(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if info, err := os.Stat(path); err == nil && info.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			out = append(out, path)
		}
	}
	return out, nil
}
