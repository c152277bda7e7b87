package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/errs"
	"github.com/meshtrial/meshtrial/studies"
	"github.com/meshtrial/meshtrial/study"
)

// tuneFlags are the flags of `meshtrial tune` beside those of run.
type tuneFlags struct {
	runFlags
	objectives, constraints []string
	model                   string
	trials, confirm         int
	dryRun                  bool
}

func newTuneCommand(env *Env) *cobra.Command {
	var f tuneFlags
	cmd := &cobra.Command{
		Use:   "tune {STUDY | --resume DIR}",
		Short: "Find the best setting of istiod's levers without measuring every combination",
		Long: "Look for the best setting of the levers that vary in a study of the control plane:\n" +
			"the next cells to try follow from the trials so far, and the search ends when nothing\n" +
			"better is likely. The recommended setting is then compared with the one in use, in\n" +
			"blocks that the search did not see. The report has the Pareto front, the setting as\n" +
			"manifests, and the steps to it: 10 to 30% at a time, what to watch, when to turn back.\n\n" +
			"Objectives and constraints are findings of `docs/study.md` or the short names\n" +
			"convergence, staleness, cpu, memory, bytes and pushes; without flags they are those of\n" +
			"the study's section tune. --resume goes on with a tuning that was interrupted.\n\n" +
			"Exit codes: 0 done, also where nothing better was found, 3 the setting that was found breaks\n" +
			"a constraint, or an assertion failed, 4 inconclusive, or the run has no answer.",
		Example: "  meshtrial tune tune-chapter-11 --objective pushes --objective convergence --constraint 'cpu<=+10%'\n" +
			"  meshtrial tune my-study.yaml --dry-run",
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) > 1:
				return errs.Usage("one study at a time, got %d", len(args))
			case len(args) == 0 && f.resume == "" && !asksLimits(f.limits):
				return errs.WithHint(errs.Usage("no study given"), studies.Takes)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if asksLimits(f.limits) {
				return showLimits(cmd.Context(), env, f.runFlags, args, study.ControlPlane)
			}
			return tune(cmd.Context(), env, f, args, cmd.Flags().Changed)
		},
	}
	addRunFlags(cmd, &f.runFlags)
	flags := cmd.Flags()
	flags.StringArrayVar(&f.objectives, "objective", nil, "what to reduce, `FINDING[*WEIGHT]`, such as convergence or pushes*2; may be repeated")
	flags.StringArrayVar(&f.constraints, "constraint", nil, "what must hold, `FINDING<=BOUND`, such as 'staleness<=2s' or 'cpu<=+10%'; may be repeated")
	flags.StringVar(&f.model, "model", "", "a capacity model, a `FILE` that capacity fit wrote: the search begins with what it expects of each cell")
	flags.IntVar(&f.trials, "trials", 0, "most trials that the search may take (default: a quarter of the cells, but at least 12)")
	flags.IntVar(&f.confirm, "confirm", 0, "blocks of the comparison (default 4)")
	flags.BoolVar(&f.dryRun, "dry-run", false, "say what would be tuned and how long it takes, and run nothing")
	return cmd
}

func tune(ctx context.Context, env *Env, f tuneFlags, args []string, given func(flag string) bool) error {
	sets, err := f.asSets(given)
	if err != nil {
		return err
	}
	if f.resume != "" && (len(sets) > 0 || f.model != "") {
		return errs.WithHint(errs.Usage("a resumed tuning keeps its objectives, constraints and limits"), "leave out --objective, --constraint, --trials, --confirm and --model, or begin another run")
	}
	f.sets = append(f.sets, sets...)
	s, _, err := chooseStudy(ctx, env, f.runFlags, args)
	if err != nil {
		return err
	}
	if s.Tune == nil {
		if s.Kind != study.ControlPlane {
			return errs.WithHint(errs.Usage("%s is a study of %s; tuning moves istiod's levers", s.Name, s.Kind.About()), "meshtrial tune tune-chapter-11 is one that can be tuned")
		}
		return errs.WithHint(errs.Usage("what is %s to be tuned for?", s.Name), "add --objective convergence, or another of %s", strings.Join(study.TuneNames(), ", "))
	}
	if f.model != "" {
		expected := ""
		err := computing(ctx, func() (err error) {
			expected, err = expectedBy(ctx, f, s)
			return err
		})
		if err != nil {
			return err
		}
		f.sets = append(f.sets, expected)
		if s, _, err = chooseStudy(ctx, env, f.runFlags, args); err != nil {
			return err
		}
	}
	if f.dryRun {
		plan, err := checkedPlan(s, max(s.Seed, 1))
		if err != nil {
			return err
		}
		if f.json {
			return writePlanJSON(env.Stdout, plan, planNotes(plan))
		}
		return writePlan(env.Stdout, plan, planNotes(plan))
	}
	return runStudy(ctx, env, f.runFlags, args)
}

// writeLevers prints a line for each lever that varies.
func writeLevers(t io.Writer, p *study.Plan) {
	fmt.Fprintln(t, "lever\tlevels")
	for _, f := range p.Varying {
		fmt.Fprintf(t, "%s\t%s\n", f.Factor, strings.Join(f.Levels, ", "))
	}
}

// writeTune says what a tuning looks for, and how.
func writeTune(w io.Writer, p *study.Plan) {
	t := p.Study.Tune
	if t == nil {
		return
	}
	var goals, bounds, expected []string
	for _, g := range t.Objectives {
		goals = append(goals, g.String())
	}
	for _, b := range t.Constraints {
		text := b.String()
		if !b.Relative {
			text = b.Finding + "<=" + words.Quantity(b.Limit, b.Unit)
		}
		bounds = append(bounds, text)
	}
	for _, e := range t.Expected {
		expected = append(expected, e.Finding)
	}
	fmt.Fprintf(w, "search: the lowest %s of %s", strings.Join(goals, ", "), words.Plural(len(p.Cells), "cell"))
	if len(bounds) > 0 {
		fmt.Fprintf(w, ", with %s", strings.Join(bounds, " and "))
	}
	fmt.Fprintf(w, ": at most %s, each block with the setting in use; then %s compare it with the best\n", words.Plural(p.TuneTrials(), "trial"), words.Plural(t.Confirm, "block"))
	if len(expected) > 0 {
		fmt.Fprintf(w, "it begins with what a model expects of %s\n", strings.Join(expected, ", "))
	}
}

// asSets are the flags that were given as overrides of the study's section tune.
func (f tuneFlags) asSets(given func(flag string) bool) ([]string, error) {
	var goals, bounds, out []string
	for _, text := range f.objectives {
		g, err := study.ParseTuneGoal(text)
		if err != nil {
			return nil, errs.WithHint(errs.Usage("--objective: %v", err), "%s", errs.Hint(err))
		}
		goals = append(goals, fmt.Sprintf("%q", g.String()))
	}
	for _, text := range f.constraints {
		b, err := study.ParseTuneBound(text)
		if err != nil {
			return nil, errs.WithHint(errs.Usage("--constraint: %v", err), "%s", errs.Hint(err))
		}
		bounds = append(bounds, fmt.Sprintf("%q", b.String()))
	}
	if len(goals) > 0 {
		out = append(out, "tune.objectives=["+strings.Join(goals, ", ")+"]")
	}
	if len(bounds) > 0 {
		out = append(out, "tune.constraints=["+strings.Join(bounds, ", ")+"]")
	}
	if given("trials") {
		out = append(out, fmt.Sprintf("tune.trials=%d", f.trials))
	}
	if given("confirm") {
		out = append(out, fmt.Sprintf("tune.confirm=%d", f.confirm))
	}
	return out, nil
}
