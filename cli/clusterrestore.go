package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/app"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
)

// restoreFlags are the flags of `cluster restore`.
type restoreFlags struct {
	clusterFlags
	run    string
	wait   time.Duration
	forget bool
}

func newClusterRestoreCommand(env *Env) *cobra.Command {
	var f restoreFlags
	cmd := &cobra.Command{
		Use:   "restore",
		Short: "Put back what a dead run changed, and remove what it made",
		Long: "Put back what dead runs changed in a cluster, and remove the namespaces that they made. A\n" +
			"field that somebody else has changed since is left alone and named; its note stays until\n" +
			"--forget drops it.\n\n" +
			"Only --run RUN puts back what somebody asked to stay (`meshtrial scope --apply`). With\n" +
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
	flags.StringVar(&f.run, "run", "", "only what this run changed and made, including what was asked to stay; and its namespace, even if the run may be under way elsewhere")
	flags.DurationVar(&f.wait, "wait", 0, "how long to wait for a run that is at work")
	flags.BoolVar(&f.forget, "forget", false, "drop the notes on what was left alone: it stays as it is (with --run, on all that this run changed and asked to stay)")
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
	claim := app.Claim{Config: config, Run: app.CommandRun("restore"), Wait: f.wait}
	return app.Occupy(ctx, p, claim, func(ctx context.Context, j *journal.Journal) error { return f.restore(ctx, env, p, config, j) })
}

// restore restores in a cluster that is this command's meanwhile.
func (f restoreFlags) restore(ctx context.Context, env *Env, p *progress, config *rest.Config, j *journal.Journal) error {
	done, forgotten, restoreErr, err := f.settle(ctx, j)
	if err != nil {
		return err
	}
	out := restored{Schema: 1, Objects: []restoredEntry{}, Namespaces: []string{}, Forgotten: forgotten, Kept: []string{}}
	for _, o := range done {
		one := restoredEntry{Object: o.Entry.Object.String(), Run: o.Entry.Run, Text: o.Text, Back: o.Back, Left: o.Left}
		if o.Err != nil {
			one.Error = o.Err.Error()
		}
		out.Objects = append(out.Objects, one)
	}
	left, err := j.Left(ctx, f.which)
	if err != nil {
		return err
	}
	kept, err := j.Kept(ctx)
	if err != nil {
		return err
	}
	for _, e := range kept {
		out.Kept = append(out.Kept, e.Object.String())
	}
	for _, text := range app.KeptNotes(kept) {
		p.Note("%s", text)
	}
	removed, sweepErr := app.RemoveNamespaces(ctx, p, config, f.run)
	out.Namespaces = append(out.Namespaces, removed...)
	p.Clear()
	if err := errors.Join(out.present(env.Stdout, f.json, done), restoreErr, sweepErr); err != nil {
		return err
	}
	if len(left) > 0 {
		for _, e := range left {
			if slices.ContainsFunc(done, func(o journal.Outcome) bool { return o.Entry.Object == e.Object && len(o.Left) > 0 }) {
				continue // it has just been told
			}
			p.Note("%s, run %s, left alone: %s", e.Object, e.Run, e.Left)
		}
		return errs.WithCode(errs.WithHint(fmt.Errorf("changed by somebody else, and left alone at least in part: %s", words.Plural(len(left), "object")),
			"look at them; if they may stay: meshtrial cluster restore --forget"), errs.CodeAssertion)
	}
	return nil
}

// which selects the entries that are asked for.
func (f restoreFlags) which(e *journal.Entry) bool { return f.run == "" || e.Run == f.run }

// restorer is what a journal does to put back, and to forget.
type restorer interface {
	Restore(ctx context.Context, which func(*journal.Entry) bool) ([]journal.Outcome, error)
	TakeBack(ctx context.Context, which func(*journal.Entry) bool) ([]journal.Outcome, error)
	Forget(ctx context.Context, which func(*journal.Entry) bool) (int, error)
}

// settle puts back what is asked for, and takes notes away that may go. What was asked
// to stay is taken back by its run's name alone, and stays for good where its notes go.
func (f restoreFlags) settle(ctx context.Context, j restorer) (done []journal.Outcome, forgotten int, failed, err error) {
	restore := j.Restore
	if f.run != "" && !f.forget {
		restore = j.TakeBack
	}
	done, failed = restore(ctx, f.which)
	if !f.forget || errors.Is(failed, journal.ErrLost) {
		return done, 0, failed, nil
	}
	forgotten, err = j.Forget(ctx, func(e *journal.Entry) bool {
		open := func(o journal.Outcome) bool { return o.Err != nil && o.Entry.Object == e.Object }
		// Of a run that is named, also what cannot be put back.
		return f.which(e) && (f.run != "" || e.Left != "" && !slices.ContainsFunc(done, open))
	})
	return done, forgotten, failed, err
}

func (r restored) present(w io.Writer, asJSON bool, done []journal.Outcome) error {
	if asJSON {
		return writeJSON(w, r)
	}
	p := &errWriter{w: w}
	p.printf("%s", app.OutcomesText(done))
	for _, name := range r.Namespaces {
		p.printf("Namespace %s: removed\n", name)
	}
	if r.Forgotten > 0 {
		p.printf("%d notes forgotten\n", r.Forgotten)
	}
	if len(r.Objects)+len(r.Namespaces)+r.Forgotten == 0 {
		p.printf("nothing to put back\n")
	}
	return p.err
}
