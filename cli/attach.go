package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/run/detached"
)

func newAttachCommand(env *Env) *cobra.Command {
	var f detachedFlags
	cmd := &cobra.Command{
		Use:   "attach [RUN]",
		Short: "Follow a detached run until it ends",
		Long: "Print a detached run's output, from the start of its pod until the run ends. Ctrl-C detaches,\n" +
			"and the run continues; any number of terminals may be attached. RUN may be omitted if there is\n" +
			"only one run, or only one in progress.\n\n" +
			"Exit codes: the run's own, as for `meshtrial run`.",
		Args: atMostOneRun,
		RunE: func(cmd *cobra.Command, args []string) error { return attach(cmd.Context(), env, f, args) },
	}
	f.add(cmd)
	return cmd
}

func attach(ctx context.Context, env *Env, f detachedFlags, args []string) error {
	clients, _, run, err := f.one(ctx, args)
	if err != nil {
		return err
	}
	p := newProgress(env.Stderr)
	p.Note("run %s of %s, %s, %s so far", run.Name, run.Study, run.State, words.Plural(run.Trials, "trial"))
	run, err = clients.Follow(ctx, run, env.Stdout, func(text string) { p.Note("%s", text) })
	if ctx.Err() != nil {
		return errs.WithHint(errs.WithCode(fmt.Errorf("detached from run %s, which continues", run.Name), errs.CodeInterrupted), "meshtrial attach %s%s", run.Name, f.words())
	}
	if err != nil {
		return err
	}
	p.Note("run %s: %s, %s", run.Name, stateWords(run), words.Plural(run.Trials, "trial"))
	if run.Trials > 0 && !run.Fetched {
		p.Note("  its directory: meshtrial runs fetch %s%s", run.Name, f.words())
	}
	return verdictOf(run)
}

// verdictOf returns nil or an error, depending on how a run's last pod ended.
func verdictOf(run detached.Run) error {
	switch {
	case run.State == detached.Completed && (run.Exit == nil || *run.Exit == errs.CodeOK):
		return nil
	case run.State == detached.Completed:
		return quiet(*run.Exit)
	}
	err := fmt.Errorf("run %s %s", run.Name, run.State)
	if why := run.Why(); why != "" {
		err = fmt.Errorf("%w: %s", err, why)
	}
	if run.Exit != nil {
		err = errs.WithCode(err, max(*run.Exit, errs.CodeFailure))
	}
	return err
}
