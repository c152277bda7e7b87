package cli

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
	"github.com/meshtrial/meshtrial/kinds"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/store"
	"github.com/spf13/cobra"
)

type trendFlags struct {
	margin string
	across []string
	study  string
	all    bool
	json   bool
	color  string
	width  int
}

func newTrendCommand(env *Env) *cobra.Command {
	var f trendFlags
	cmd := &cobra.Command{
		Use:   "trend DIR",
		Short: "Follow findings over the runs in a folder: what changed, when, and by how much",
		Long: "Put the runs below folder DIR in order of time, and find where the level of a\n" +
			"finding changes: between which runs, by how much, and which versions changed there.\n" +
			"Each run is one value. Chance alone makes it find a change in at most 5% of trends.\n" +
			"Where runs differ by 3% and some 20 came before, a change of 10% is found about three\n" +
			"runs after it happened. With fewer runs, or more findings that decide, it takes more:\n" +
			"the trend says how many.\n\n" +
			"Runs on different machines, of different versions or of different studies are not\n" +
			"joined unless --across says so: `--across versions` follows a mesh over its releases.\n" +
			"--study takes the runs of one study. Runs that cannot be read are named and left out.\n\n" +
			"Exit codes: 0 no change for the worse remains at the end, 2 wrong usage or runs that\n" +
			"must not be joined, 3 one remains, with its whole interval beyond the margin, 4 inconclusive:\n" +
			fmt.Sprintf("it may lie within the margin, a finding that decides has no value in the newest\nruns, or there are too few runs (fewer than %d, or too few to show any change).", comparison.MinTrend),
		Example: "  meshtrial trend runs --study quick\n" +
			"  meshtrial trend runs --study quick --across versions --all",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return runTrend(cmd.Context(), env, f, args[0]) },
	}
	flags := cmd.Flags()
	addRunsFlags(cmd, &f.margin, &f.across, "change that does not count, as a share of the level before it")
	flags.StringVar(&f.study, "study", "", "only runs of the study of this name")
	flags.BoolVar(&f.all, "all", false, "show all findings, not only those that decide or changed")
	flags.BoolVar(&f.json, "json", false, "print the trend as JSON")
	addTextFlags(cmd, &f.color, &f.width)
	return cmd
}

func runTrend(ctx context.Context, env *Env, f trendFlags, dir string) error {
	how, err := runsOptions(f.margin, f.across)
	if err != nil {
		return err
	}
	options, err := textOptions(env.Stdout, f.color, f.width)
	if err != nil {
		return err
	}
	dirs, err := runsIn(dir)
	if err != nil {
		return err
	}
	runs, left, err := readTrend(ctx, env, dirs, f.study)
	if err != nil {
		return err
	}
	trend, err := comparison.MakeTrend(runs, how)
	if err != nil {
		return trendHint(err, runs, f.study)
	}
	trend.LeftOut = append(left, trend.LeftOut...)
	if f.json {
		err = writeJSON(env.Stdout, trend)
	} else {
		err = kinds.Reports().RenderTrend(env.Stdout, trend, f.all, options)
	}
	if err != nil {
		return err
	}
	switch trend.Verdict {
	case record.VerdictWorse:
		return errs.WithCode(errors.New("a change for the worse remains"), errs.CodeAssertion)
	case record.VerdictInconclusive:
		return errs.WithHint(errs.WithCode(fmt.Errorf("the trend is inconclusive: %s", trend.Why), errs.CodeInvalid),
			"see to runs without valid trials first, then make more runs of the same study; `meshtrial compare BEFORE... --with AFTER...` needs fewer")
	}
	return nil
}

// readTrend reads runs one after the other, those of one study if it is named,
// and says which cannot be read.
func readTrend(ctx context.Context, env *Env, dirs []string, name string) (runs []*analysis.RunFigures, left []comparison.LeftOut, err error) {
	var others []string // studies of runs that are left out
	for _, dir := range dirs {
		if name != "" {
			if c, err := store.Read(dir); err == nil && c.Header.Study != name {
				if !slices.Contains(others, c.Header.Study) {
					others = append(others, c.Header.Study)
				}
				continue
			}
		}
		figures, err := loadFigures(ctx, env, dir)
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
		return nil, nil, errs.WithHint(errs.Usage("none of %s is of study %q", words.Plural(len(dirs), "run"), name), "%s", errs.Suggest(name, others))
	}
	return runs, left, nil
}

// trendHint tells those who follow several studies at once how to take one.
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
	return errs.WithHint(err, "--study %s takes the runs of one study; %s", names[0], errs.Hint(err))
}

// runFiles are files of which one shows that a folder is a run, whole or not.
var runFiles = []string{store.FileHeader, store.FileTrials, store.FileResolved}

// runsIn lists the run directories in a folder, and in those folders in it that
// are none themselves.
func runsIn(dir string) ([]string, error) {
	if isRun(dir) {
		return nil, errs.WithHint(errs.Usage("%s is a run, not a folder of runs", dir), "give the folder that the runs are in: %s", filepath.Dir(filepath.Clean(dir)))
	}
	var out []string
	below, err := folders(dir)
	if err != nil {
		return nil, errs.WithHint(errs.WithCode(err, errs.CodeUsage), "give the folder that the runs are in")
	}
	for _, sub := range below {
		if isRun(sub) {
			out = append(out, sub)
			continue
		}
		deeper, err := folders(sub)
		if err != nil {
			return nil, err
		}
		out = append(out, slices.DeleteFunc(deeper, func(d string) bool { return !isRun(d) })...)
	}
	if len(out) == 0 {
		return nil, errs.WithHint(errs.Usage("there is no run in %s", dir), "give the folder that the runs are in")
	}
	return out, nil
}

func isRun(dir string) bool {
	return slices.ContainsFunc(runFiles, func(name string) bool {
		info, err := os.Stat(filepath.Join(dir, name))
		return err == nil && info.Mode().IsRegular()
	})
}

// folders are those in a folder, links followed, hidden ones left out.
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
