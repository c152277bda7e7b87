package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/meshtrial/meshtrial/analysis/comparison"
	"github.com/meshtrial/meshtrial/app"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/kinds"
	"github.com/meshtrial/meshtrial/report"
)

type compareFlags struct {
	margin string
	across []string
	printFlags
}

func newCompareCommand(env *Env) *cobra.Command {
	var f compareFlags
	var with withFlag
	cmd := &cobra.Command{
		Use:   "compare RUN_A RUN_B | compare BEFORE... --with AFTER...",
		Short: "Compare runs: better, worse or the same",
		Long: "Compare the findings of run B with those of run A: what sidecars add, each relative to\n" +
			"its own run's baseline, and CPU and memory. Changes within the margin do not count.\n" +
			"\"Same\" needs evidence too: if the intervals are too wide, the answer is inconclusive.\n\n" +
			"Repeated runs vary. With several runs on each side (--with), the interval accounts for\n" +
			"that, and the answer is about what changed between the sides. With one run on each\n" +
			"side, the answer is about these two runs, and says so. If runs vary by 3%, finding a\n" +
			"20% change takes 3 runs on each side, and a 10% change takes 6.\n\n" +
			"Runs on different machines, or of studies with other settings, levels, times or\n" +
			"prices, are not compared; runs of one side must share versions too. --across joins\n" +
			"them anyway and compares findings with the same name and cell on both sides.\n\n" +
			"Exit codes: 0 better or the same, 2 wrong usage or runs that cannot be joined, 3\n" +
			"worse, 4 inconclusive.",
		Example: "  meshtrial compare runs/quick-before runs/quick-after\n" +
			"  meshtrial compare before/* --with after/* --margin 5%\n" +
			"  meshtrial compare before/* --with after/* --across versions --json",
		Args: func(cmd *cobra.Command, args []string) error {
			if with.given {
				return nil // sides checks the arguments
			}
			return cobra.ExactArgs(2)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			before, after, err := with.sides(args)
			if err != nil {
				return err
			}
			return runCompare(cmd.Context(), env, f, before, after)
		},
	}
	flags := cmd.Flags()
	with.flags = flags
	flags.Var(&with, "with", "compare the runs before this flag with all runs after it")
	addRunsFlags(cmd, &f.margin, &f.across, "change to ignore, as a share of side A's value")
	f.printFlags.register(flags)
	return cmd
}

// addRunsFlags adds the flags that control how runs are compared.
func addRunsFlags(cmd *cobra.Command, margin *string, across *[]string, doc string) {
	cmd.Flags().StringVar(margin, "margin", "5%", doc)
	cmd.Flags().StringSliceVar(across, "across", nil, "join runs that differ in "+strings.Join(comparison.AcrossAll, ", ")+" (comma-separated)")
}

// withFlag is the flag --with, which precedes all runs of the second side. It records how many
// arguments came before it.
type withFlag struct {
	flags  *pflag.FlagSet
	given  bool
	before int
	first  []string
}

func (w *withFlag) String() string { return "" }
func (w *withFlag) Type() string   { return "AFTER..." }

func (w *withFlag) Set(run string) error {
	if w.given {
		return errors.New("give it once, before all runs of the second side")
	}
	w.given, w.before, w.first = true, len(w.flags.Args()), []string{run}
	return nil
}

// sides returns the runs before and after.
func (w *withFlag) sides(args []string) (before, after []string, err error) {
	if !w.given {
		return args[:1], args[1:], nil
	}
	if before = args[:w.before]; len(before) == 0 {
		return nil, nil, errs.WithHint(errs.Usage("no run is named before --with"), "usage: meshtrial compare BEFORE... --with AFTER...")
	}
	return before, append(w.first, args[w.before:]...), nil
}

// runsOptions returns the options for comparing runs.
func runsOptions(margin string, across []string) (comparison.CompareOptions, error) {
	ratio, err := parseMargin(margin)
	if err != nil {
		return comparison.CompareOptions{}, err
	}
	joined, err := comparison.ParseAcross(across)
	return comparison.CompareOptions{MarginRatio: ratio, Across: joined}, err
}

func runCompare(ctx context.Context, env *Env, f compareFlags, before, after []string) error {
	how, err := runsOptions(f.margin, f.across)
	if err != nil {
		return err
	}
	c, err := app.Compare(ctx, before, after, how, env.warn)
	if err != nil {
		return err
	}
	err = f.show(env, c, func(w io.Writer, o report.Options) error { return kinds.Reports().RenderComparison(w, c, o) })
	if err != nil {
		return err
	}
	return app.CompareJudgement(c, before, after)
}

// parseMargin parses a ratio: "5%" or "0.05".
func parseMargin(text string) (float64, error) {
	number, percent := strings.CutSuffix(strings.TrimSpace(text), "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		v /= 100
	}
	if err != nil || math.IsNaN(v) || v < 0 || v > 10 {
		return 0, errs.WithHint(errs.Usage("invalid --margin %q", text), "write it as 5%% or 0.05")
	}
	if !percent && v > 1 {
		return 0, errs.WithHint(errs.Usage("--margin %s would be %s%%", text, fmt.Sprint(100*v)), "write %s%% for a share of %v", text, v/100)
	}
	return v, nil
}
