package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/app"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/spf13/cobra"
)

// restoreFlags are the flags of `cluster restore`.
type restoreFlags struct {
	clusterFlags
	app.RestoreOptions
}

func newClusterRestoreCommand(env *Env) *cobra.Command {
	var f restoreFlags
	cmd := &cobra.Command{
		Use:   "restore",
		Short: "Revert what a dead run changed, and remove what it made",
		Long: "Revert what dead runs changed in a cluster, and remove the namespaces that they made. A\n" +
			"field that somebody else has changed since is left alone and named; its note stays until\n" +
			"--forget drops it.\n\n" +
			"Only --run RUN reverts what somebody asked to stay (`meshtrial scope --apply`). With\n" +
			"--run RUN --forget it stays for good, and its notes go.\n\n" +
			"A run at work holds the cluster's Lease: the command then names that run and does nothing.\n\n" +
			"Exit codes: 0 all is as it was, 3 something was left alone.",
		Example: "  meshtrial cluster restore\n" +
			"  meshtrial cluster restore --kubeconfig staging.yaml --wait 10m",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, args []string) error { return restoreCluster(cmd.Context(), env, f) },
	}
	f.add(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.Run, "run", "", "only what this run changed and made, including what was asked to stay; and its namespace, even if the run may be under way elsewhere")
	flags.DurationVar(&f.Wait, "wait", 0, "how long to wait for a run that is at work")
	flags.BoolVar(&f.Forget, "forget", false, "drop the notes on what was left alone: it stays as it is (with --run, on all that this run changed and asked to stay)")
	return cmd
}

// restored is what `cluster restore --json` prints.
type restored struct {
	Schema     int             `json:"schema"`
	Objects    []restoredEntry `json:"objects"`
	Namespaces []string        `json:"namespaces"` // removed
	Forgotten  int             `json:"forgotten"`
	// Kept are the objects whose changes stay, as somebody asked for.
	Kept []string `json:"kept"`
}

type restoredEntry struct {
	Object string   `json:"object"`
	Run    string   `json:"run"`
	Text   string   `json:"text"`
	Back   []string `json:"back,omitempty"`
	Left   []string `json:"left,omitempty"`
	Error  string   `json:"error,omitempty"`
}

func restoreCluster(ctx context.Context, env *Env, f restoreFlags) error {
	config, err := f.reach(ctx)
	if err != nil {
		return err
	}
	p := newProgress(env.Stderr)
	defer p.Clear()
	f.Config, f.Progress = config, p
	done, failed := app.Restore(ctx, f.RestoreOptions)
	if done == nil {
		return failed
	}
	p.Clear()
	if err := errors.Join(presentRestored(env.Stdout, f.json, done), failed); err != nil {
		return err
	}
	for _, e := range done.Left {
		if !slices.ContainsFunc(done.Outcomes, func(o journal.Outcome) bool { return o.Entry.Object == e.Object && len(o.Left) > 0 }) {
			p.Note("%s, run %s, left alone: %s", e.Object, e.Run, e.Left) // the others are among the outcomes
		}
	}
	if len(done.Left) > 0 {
		return errs.WithCode(errs.WithHint(fmt.Errorf("changed by somebody else, and left alone at least in part: %s",
			words.Plural(len(done.Left), "object")),
			"look at them; if they may stay: meshtrial cluster restore --forget"), errs.CodeAssertion)
	}
	return nil
}

// presentRestored prints what became of the cluster.
func presentRestored(w io.Writer, asJSON bool, done *app.Restored) error {
	if asJSON {
		out := restored{Schema: 1, Objects: []restoredEntry{}, Namespaces: append([]string{}, done.Namespaces...),
			Forgotten: done.Forgotten, Kept: []string{}}
		for _, o := range done.Outcomes {
			one := restoredEntry{Object: o.Entry.Object.String(), Run: o.Entry.Run, Text: o.Text, Back: o.Back,
				Left: o.Left}
			if o.Err != nil {
				one.Error = o.Err.Error()
			}
			out.Objects = append(out.Objects, one)
		}
		for _, e := range done.Kept {
			out.Kept = append(out.Kept, e.Object.String())
		}
		return writeJSON(w, out)
	}
	p := &errWriter{w: w}
	p.printf("%s", outcomesText(done.Outcomes))
	for _, name := range done.Namespaces {
		p.printf("Namespace %s: removed\n", name)
	}
	if done.Forgotten > 0 {
		p.printf("%d notes forgotten\n", done.Forgotten)
	}
	if len(done.Outcomes)+len(done.Namespaces)+done.Forgotten == 0 {
		p.printf("nothing to revert\n")
	}
	return p.err
}

// outcomesText says what became of entries, a line or two each.
func outcomesText(done []journal.Outcome) string {
	var b strings.Builder
	for _, o := range done {
		switch {
		case o.Err != nil:
			fmt.Fprintf(&b, "%s: not reverted: %v\n", o.Entry.Object, o.Err)
			continue
		case len(o.Back) > 0:
			fmt.Fprintf(&b, "%s: %s (%s)\n", o.Entry.Object, o.Text, strings.Join(o.Back, ", "))
		default:
			fmt.Fprintf(&b, "%s: %s\n", o.Entry.Object, o.Text)
		}
		for _, text := range o.Left {
			fmt.Fprintf(&b, "  left alone: %s\n", text)
		}
	}
	return b.String()
}
