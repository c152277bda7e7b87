package cli

import (
	"context"
	"errors"
	"fmt"
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
		Short: "Revert what a dead run changed, and delete what it created",
		Long: "Revert what dead runs changed in a cluster, and delete the namespaces that they created. A\n" +
			"field that someone else has changed since is reported and left alone; its journal entry\n" +
			"stays until --forget removes it.\n\n" +
			"Changes kept on purpose (`meshtrial assess config --apply`) are reverted only with --run RUN. --run\n" +
			"RUN --forget keeps them permanently and removes their journal entries.\n\n" +
			"If an active run holds the cluster's Lease, the command names that run and does nothing.\n\n" +
			"Exit codes: 0 everything reverted, 3 something was left unchanged.",
		Example: "  meshtrial cluster restore\n" +
			"  meshtrial cluster restore --kubeconfig staging.yaml --wait 10m",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, args []string) error { return restoreCluster(cmd.Context(), env, f) },
	}
	f.add(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.Run, "run", "", "revert only this run, including changes kept on purpose, and delete its namespace even if the run may still be active elsewhere")
	flags.DurationVar(&f.Wait, "wait", 0, "how long to wait for an active run")
	flags.BoolVar(&f.Forget, "forget", false, "forget changes that were left alone (with --run: all changes of that run, including those kept on purpose)")
	return cmd
}

// restored is what `cluster restore --json` prints.
type restored struct {
	Schema     int             `json:"schema"`
	Objects    []restoredEntry `json:"objects"`
	Namespaces []string        `json:"namespaces"` // removed
	Forgotten  int             `json:"forgotten"`
	// Kept are the objects whose changes stay on purpose.
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
	if err := errors.Join(env.print(f.json, document(done), restoredText(done, f.Run)), failed); err != nil {
		return err
	}
	for _, e := range done.Left {
		if !slices.ContainsFunc(done.Outcomes, func(o journal.Outcome) bool { return o.Entry.Object == e.Object && len(o.Left) > 0 }) {
			p.Note("%s, run %s, left alone: %s", e.Object, e.Run, e.Left) // the others are among the outcomes
		}
	}
	if len(done.Left) > 0 {
		return errs.WithCode(errs.WithHint(fmt.Errorf("changed by someone else, and left alone at least in part: %s",
			words.Plural(len(done.Left), "object")),
			"check them; to keep them as they are: meshtrial cluster restore --forget"), errs.CodeAssertion)
	}
	return nil
}

// document is what --json prints.
func document(done *app.Restored) restored {
	out := restored{Schema: 1, Objects: []restoredEntry{}, Namespaces: append([]string{}, done.Namespaces...),
		Forgotten: done.Forgotten, Kept: []string{}}
	for _, o := range done.Outcomes {
		one := restoredEntry{Object: o.Entry.Object.String(), Run: o.Entry.Run, Text: o.Text, Back: o.Back, Left: o.Left}
		if o.Err != nil {
			one.Error = o.Err.Error()
		}
		out.Objects = append(out.Objects, one)
	}
	for _, e := range done.Kept {
		out.Kept = append(out.Kept, e.Object.String())
	}
	return out
}

// restoredText says what became of the cluster, or of one run's changes in it.
func restoredText(done *app.Restored, run string) string {
	var b strings.Builder
	for _, o := range done.Outcomes {
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
	for _, name := range done.Namespaces {
		fmt.Fprintf(&b, "Namespace %s: removed\n", name)
	}
	if done.Forgotten > 0 {
		fmt.Fprintf(&b, "%d journal entries forgotten\n", done.Forgotten)
	}
	if b.Len() == 0 {
		b.WriteString("nothing to revert")
		if run != "" {
			b.WriteString(" of run " + run)
		}
		b.WriteString("\n")
	}
	return b.String()
}
