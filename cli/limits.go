package cli

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/meshtrial/meshtrial/kinds"
	"github.com/meshtrial/meshtrial/run/verdict"
	"github.com/meshtrial/meshtrial/study"
)

// asksLimits says that flags --limit ask which limits there are.
func asksLimits(limits []string) bool { return slices.Contains(limits, "help") }

// showLimits prints the limits of the study that a run would be of; of some kinds where
// none is named.
func showLimits(ctx context.Context, env *Env, f runFlags, args []string, of ...study.Kind) error {
	if len(args) > 0 || f.Resume != "" {
		s, _, err := chooseStudy(ctx, env, f, args)
		if err != nil {
			return err
		}
		of = []study.Kind{s.Kind}
	}
	return writeLimits(env.Stdout, of...)
}

// reportLimits prints the limits of a recorded run; of every kind where none is named.
func reportLimits(ctx context.Context, env *Env, args []string) error {
	if len(args) == 0 {
		return writeLimits(env.Stdout, study.Kinds()...)
	}
	run, err := loadRun(ctx, env, args[0])
	if err != nil {
		return err
	}
	kind, err := kinds.OfRun(run.Header)
	if err != nil {
		return err
	}
	return writeLimits(env.Stdout, kind.Name)
}

// writeLimits prints the limits by which trials of some kinds of study are judged.
func writeLimits(w io.Writer, of ...study.Kind) error {
	for i, name := range of {
		kind, ok := kinds.Named(name)
		if !ok {
			continue
		}
		gap := ""
		if i > 0 {
			gap = "\n"
		}
		if _, err := fmt.Fprintf(w, "%sTrials of %s are judged by these limits:\n%s\n", gap, name.About(), verdict.Listed(kind.Limits)); err != nil {
			return err
		}
	}
	return nil
}
