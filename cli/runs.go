package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/app"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/shell"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/lab/rights"
	"github.com/meshtrial/meshtrial/run/detached"
	"github.com/meshtrial/meshtrial/run/store"
)

func newRunsCommand(env *Env) *cobra.Command {
	return parentCommand("runs", "List detached runs, fetch their directories, and delete them",
		"Detached runs are those started by `meshtrial run --detach`, in the lab on this machine or in a\n"+
			"cluster. RUN may be omitted if there is only one run, or only one in progress.",
		newRunsListCommand(env), newRunsFetchCommand(env), newRunsDeleteCommand(env))
}

// detachedFlags say where detached runs are.
type detachedFlags struct {
	app.Where
	namespace string
}

func (f *detachedFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	addWhereFlags(flags, &f.Where, "where the run is")
	flags.StringVarP(&f.namespace, "namespace", "n", "", "namespace of the runs' Jobs and PersistentVolumeClaims (default: all)")
}

// words are the flags by which other commands find the same lab.
func (f *detachedFlags) words() string {
	words := f.Flags()
	if f.namespace != "" {
		words += " -n " + f.namespace
	}
	return words
}

// open finds the cluster, if its user has the rights of these features there.
func (f *detachedFlags) open(ctx context.Context, features ...string) (*detached.Cluster, *rest.Config, error) {
	if err := f.Check(); err != nil {
		return nil, nil, err
	}
	config, err := f.Config(ctx, app.Rights(app.Places(nil, f.namespace), append(features, rights.Reach)...))
	if err != nil {
		return nil, nil, err
	}
	clients, err := detached.Open(config, f.words())
	return clients, config, err
}

// one finds the run of a command's argument.
func (f *detachedFlags) one(ctx context.Context, args []string, features ...string) (*detached.Cluster, *rest.Config, detached.Run, error) {
	clients, config, err := f.open(ctx, features...)
	if err != nil {
		return nil, nil, detached.Run{}, err
	}
	run, err := clients.Find(ctx, f.namespace, cmp.Or(append(args, "")...))
	return clients, config, run, err
}

func newRunsListCommand(env *Env) *cobra.Command {
	var f detachedFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List detached runs",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			clients, _, err := f.open(cmd.Context())
			if err != nil {
				return err
			}
			all, err := clients.List(cmd.Context(), f.namespace)
			if err != nil {
				return err
			}
			return env.print(asJSON, struct {
				Schema int            `json:"schema"`
				Runs   []detached.Run `json:"runs"`
			}{1, all}, runsText(all, time.Now()))
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func runsText(all []detached.Run, now time.Time) string {
	if len(all) == 0 {
		return "there are no detached runs\n"
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "RUN\tSTUDY\tSTATE\tTRIALS\tAGE\tRESULTS")
	for _, r := range all {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\n", r.Name, r.Study, stateWords(r), r.Trials, now.Sub(r.Since).Round(time.Second), r.Results)
	}
	w.Flush()
	for _, r := range all {
		if why := r.Why(); why != "" && r.State == detached.Failed {
			lines := strings.Split(why, "\n")
			for i := range lines {
				lines[i] = words.Clean(lines[i])
			}
			fmt.Fprintf(&b, "run %s failed: %s\n", r.Name, strings.Join(lines, "\n  "))
		}
	}
	return b.String()
}

// stateWords say how a run stands, and with which code it ended if that is not 0.
func stateWords(r detached.Run) string {
	text := string(r.State)
	if r.Ended() && r.Exit != nil && *r.Exit != 0 {
		text += fmt.Sprintf(", exit code %d", *r.Exit)
	}
	if r.Fetched {
		text += ", fetched"
	}
	return text
}

func atMostOneRun(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return errs.Usage("one run at a time, got %d", len(args))
	}
	return nil
}

func newRunsFetchCommand(env *Env) *cobra.Command {
	var f detachedFlags
	var to string
	cmd := &cobra.Command{
		Use:   "fetch [RUN]",
		Short: "Fetch the directory of a detached run that has ended",
		Long: "Fetch the run directory completely or not at all, from a pod on the run's volume. The copy\n" +
			"in the cluster stays until `meshtrial runs delete`.",
		Args: atMostOneRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			if to != "" {
				if err := store.Vacant(to); err != nil {
					return err
				}
			}
			clients, _, run, err := f.one(cmd.Context(), args, rights.DetachedRuns)
			if err != nil {
				return err
			}
			if to == "" {
				to = filepath.Join(app.RunsFolder, run.Study+"-"+run.Name)
			}
			return fetch(cmd.Context(), env, clients, run, to)
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&to, "to", "", "run `DIR` to create (default runs/STUDY-RUN)")
	return cmd
}

func fetch(ctx context.Context, env *Env, clients *detached.Cluster, run detached.Run, to string) error {
	p := newProgress(env.Stderr)
	defer p.Clear()
	if err := clients.Fetch(ctx, run, to, func(text string) { p.Say("%s", text) }); err != nil {
		return err
	}
	p.Clear()
	loaded, notes, err := store.Load(ctx, to)
	if err != nil {
		return fmt.Errorf("%s was fetched unchanged from the cluster, but cannot be read: %w", to, err)
	}
	for _, note := range notes {
		p.Note("note: %s", note)
	}
	if len(loaded.Trials) < run.Trials {
		p.Note("warning: the run recorded %s, but only %d can be read here: check them before you delete the copy in the cluster, which now requires --force", words.Plural(run.Trials, "trial"), len(loaded.Trials))
	} else if err := clients.Fetched(ctx, run); err != nil {
		return fmt.Errorf("%s was fetched, but that could not be recorded: %w", to, err)
	}
	_, err = fmt.Fprintf(env.Stdout, "%s: %s of %s\n  to read it: meshtrial report %s\n", to, words.Plural(len(loaded.Trials), "trial"), run.Study, shell.Quote(to))
	return err
}

func newRunsDeleteCommand(env *Env) *cobra.Command {
	var f detachedFlags
	var force bool
	cmd := &cobra.Command{
		Use:   "delete RUN",
		Short: "Delete a detached run and everything it created, including its results in the cluster",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errs.WithHint(errs.Usage("name one run to delete"), "meshtrial runs list%s", f.words())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			clients, config, run, err := f.one(ctx, args, rights.DetachedRuns)
			if err != nil {
				return err
			}
			switch {
			case force:
			case !run.Ended():
				return errs.WithHint(errs.Usage("run %s is in progress (%s)", run.Name, run.State), "to stop it and delete it with its results: meshtrial runs delete %s --force%s", run.Name, f.words())
			case !run.Fetched && run.Trials > 0:
				return errs.WithHint(errs.Usage("the results of run %s are only in the cluster", run.Name), "to get them: meshtrial runs fetch %s%s; --force deletes them", run.Name, f.words())
			}
			p := newProgress(env.Stderr)
			defer p.Clear()
			last, err := clients.Delete(ctx, run, force, func(text string) { p.Say("%s", text) })
			if err == nil && last {
				err = tidyJournal(ctx, p, config, f.Lab == lab.KindLocal)
			}
			if err != nil {
				return err
			}
			p.Clear()
			if _, err := fmt.Fprintf(env.Stdout, "run %s was deleted\n", run.Name); err != nil || f.Lab == lab.KindLocal { // the next run there reverts
				return err
			}
			changed, err := stillChanged(ctx, config)
			if changed > 0 {
				p.Note("%s still changed by runs that have ended: meshtrial cluster restore%s", words.Plural(changed, "object"), app.ClusterFlags(f.Kubeconfig, f.Context))
			}
			return err
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&force, "force", false, "delete even if the run is active or its results were not fetched")
	return cmd
}

// stillChanged counts the objects that runs have changed which are not at work any more,
// but for what stays because somebody asked for that. Who may not see them sees none.
func stillChanged(ctx context.Context, config *rest.Config) (int, error) {
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return 0, err
	}
	holder, err := journal.At(ctx, objects)
	if err != nil {
		return 0, allowed(err)
	}
	entries, err := journal.Entries(ctx, objects)
	return left(entries, holder), allowed(err)
}

// left counts the entries that nobody is going to revert by himself.
func left(entries []*journal.Entry, holder *journal.Holder) (n int) {
	for _, e := range entries {
		if e.Kept == "" && (holder == nil || e.Run != holder.Run) {
			n++
		}
	}
	return n
}

// allowed leaves out that something is not for whoever asks.
func allowed(err error) error {
	if apierrors.IsForbidden(err) {
		return nil
	}
	return err
}

// tidyJournal has the journal's namespace go if nothing is noted there. Where somebody is
// at work it goes when he leaves; and where this is not for whoever asks, when the next run
// ends.
func tidyJournal(ctx context.Context, p *progress, config *rest.Config, own bool) error {
	if own {
		return nil
	}
	// To leave the cluster removes the namespace.
	err := app.Occupy(ctx, p, app.Claim{Config: config, Run: app.CommandRun("runs")}, func(context.Context, *journal.Journal) error { return nil })
	if held := (*journal.HeldError)(nil); errors.As(err, &held) {
		return nil
	}
	if apierrors.IsForbidden(err) {
		p.Note("note: namespace %s stays until the next run ends: this user may not delete it", journal.Namespace)
		return nil
	}
	return err
}
