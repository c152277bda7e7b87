package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/errs"
	"github.com/meshtrial/meshtrial/kinds"
	"github.com/meshtrial/meshtrial/kinds/analyses"
	"github.com/meshtrial/meshtrial/record"
	"github.com/spf13/cobra"
)

type compareFlags struct {
	margin string
	json   bool
	color  string
	width  int
}

func newCompareCommand(env *Env) *cobra.Command {
	var f compareFlags
	cmd := &cobra.Command{
		Use:   "compare RUN_A RUN_B",
		Short: "Tell whether run B is better than, worse than or the same as run A",
		Long: "Compare the findings of run B with those of run A: what sidecars add, each taken\n" +
			"against its own run's baseline, and CPU and memory. Changes within the margin do\n" +
			"not count. \"Same\" needs evidence too: if the intervals are too wide, the answer is\n" +
			"inconclusive.\n\n" +
			"Exit codes: 0 better or the same, 3 worse, 4 inconclusive.",
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runCompare(cmd.Context(), env, f, args[0], args[1])
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.margin, "margin", "5%", "change to ignore, as a share of run A's value")
	flags.BoolVar(&f.json, "json", false, "print the comparison as JSON")
	addTextFlags(cmd, &f.color, &f.width)
	return cmd
}

func runCompare(ctx context.Context, env *Env, f compareFlags, dirA, dirB string) error {
	margin, err := parseMargin(f.margin)
	if err != nil {
		return err
	}
	options, err := textOptions(env.Stdout, f.color, f.width)
	if err != nil {
		return err
	}
	a, err := loadRun(ctx, env, dirA)
	if err != nil {
		return err
	}
	b, err := loadRun(ctx, env, dirB)
	if err != nil {
		return err
	}
	comparison, err := analyses.All().Compare(a, b, margin)
	if err != nil {
		return err
	}
	if f.json {
		err = writeJSON(env.Stdout, comparison)
	} else {
		err = kinds.Reports().RenderComparison(env.Stdout, comparison, options)
	}
	if err != nil {
		return err
	}
	switch comparison.Verdict {
	case record.VerdictWorse:
		return errs.WithCode(errors.New("run B is worse"), errs.CodeAssertion)
	case record.VerdictInconclusive:
		return inconclusive(comparison, dirA, dirB)
	}
	return nil
}

// inconclusive is the error of a comparison that says neither.
func inconclusive(c analysis.Comparison, dirA, dirB string) error {
	if c.Why == "" {
		return errs.WithHint(errs.WithCode(errors.New("the comparison is inconclusive"), errs.CodeInvalid),
			"more blocks narrow the intervals; a wider --margin is easier to meet")
	}
	lacking := "RUN"
	switch c.Lacking {
	case analysis.LackingA:
		lacking = dirA
	case analysis.LackingB:
		lacking = dirB
	}
	return errs.WithHint(errs.WithCode(fmt.Errorf("the comparison is inconclusive: %s", c.Why), errs.CodeInvalid),
		"`meshtrial report %s` says why", lacking)
}

// parseMargin reads a share: "5%" or "0.05".
func parseMargin(text string) (float64, error) {
	number, percent := strings.CutSuffix(strings.TrimSpace(text), "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		v /= 100
	}
	if err != nil || math.IsNaN(v) || v < 0 || v > 10 {
		return 0, errs.WithHint(errs.Usage("--margin %q is not a share", text), "write it as 5%% or 0.05")
	}
	if !percent && v > 1 {
		return 0, errs.WithHint(errs.Usage("--margin %s would be %s%%", text, fmt.Sprint(100*v)), "write %s%% for a share of %v", text, v/100)
	}
	return v, nil
}
