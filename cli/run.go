package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/kinds"
	"github.com/meshtrial/meshtrial/kinds/analyses"
	"github.com/meshtrial/meshtrial/kinds/resilience/findings"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/components"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/run/store"
	"github.com/meshtrial/meshtrial/run/verdict"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/study/studies"
	"github.com/spf13/cobra"
)

// runFlags are the flags of `meshtrial run`.
type runFlags struct {
	limits     []string // NAME=VALUE
	lab        string
	sets       []string
	out        string
	resume     string
	json       bool
	keepLab    bool
	kubeconfig string
	context    string
	image      string
	pullSecret string
	linkerd    string
	ztunnel    string
	revision   string
	observe    string
	wait       time.Duration
	yes        bool
	meshWide   bool
	nodes      int // 0: as many as the study needs
	zones      []string
	detach     bool
	results    string // of a detached run: where they go
	model      string // a capacity model that a tuning begins with
	own        bool   // of a detached run: its cluster is the local lab
	// given is the folder that a detached run's study is in.
	given string
	// detached names the detached run that this is an attempt of.
	detached string
	// hopeless is why a detached run ends once it has put back what is left of it; nil: it does not.
	hopeless error
	// kept is called after each trial.
	kept func(context.Context) error
}

func newRunCommand(env *Env) *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run {STUDY | --resume DIR}",
		Short: "Run a study and write a report",
		Long: "Run a study: one that `meshtrial study list` names, or a file.\n\n" +
			"With --lab local (the default) it runs in the lab on this machine. If none is up, one\n" +
			"is started, with as many nodes as the study needs or --nodes says, and taken down at\n" +
			"the end. With --lab cluster it runs in the cluster of a kubeconfig.\n\n" +
			"Results go to a new directory. Completed trials are always kept; --resume continues\n" +
			"from them. With --detach the run continues in the cluster by itself: `meshtrial attach`\n" +
			"follows it, `meshtrial runs fetch` gets its directory.\n\n" +
			"A study with a section tune is searched for its best setting (docs/tuning.md): the run\n" +
			"measures a few cells, chooses the next ones by what it has learned, and compares the\n" +
			"setting that it recommends with the one in use.\n\n" +
			"Exit codes: 0 run completed, 3 an assertion failed or a verdict is not the expected\n" +
			"one, 4 the run has no answer or a verdict is inconclusive.",
		Example: "  meshtrial run quick\n" +
			"  meshtrial run my-study.yaml --set rate=2000 --set connections=[8,16]\n" +
			"  meshtrial run --resume runs/quick-...\n" +
			"  meshtrial run my-study.yaml --lab cluster --image registry.example/meshtrial:1",
		Args: func(cmd *cobra.Command, args []string) error {
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
				return showLimits(cmd.Context(), env, f, args, study.Kinds()...)
			}
			if cmd.Flags().Changed("nodes") {
				if err := checkNodes(f.nodes); err != nil {
					return err
				}
			}
			if f.detach {
				return detach(cmd.Context(), env, f, args)
			}
			return runStudy(cmd.Context(), env, f, args)
		},
	}
	addRunFlags(cmd, &f)
	cmd.Flags().StringVar(&f.model, "model", "", "of a study with a section tune: a capacity model, a `FILE` that capacity fit wrote; the search begins with what it expects")
	cmd.Flags().BoolVar(&f.detach, "detach", false, "run in the cluster, and continue there after this command ends")
	cmd.Flags().StringVar(&f.results, "results", "", "with --detach: where results go, `pvc:[NAMESPACE/]NAME` (default in a local lab: a folder of the lab)")
	return cmd
}

// addRunFlags adds the flags of commands that run a study.
func addRunFlags(cmd *cobra.Command, f *runFlags) {
	flags := cmd.Flags()
	flags.StringVar(&f.lab, "lab", lab.KindLocal, "where to run: local (a lab on this machine) or cluster (a kubeconfig's)")
	addSetFlag(cmd, &f.sets)
	flags.StringVar(&f.out, "out", "", "run `DIR` to make (default runs/STUDY-TIME)")
	flags.StringVar(&f.resume, "resume", "", "continue the run in this `DIR`")
	flags.StringArrayVar(&f.limits, "limit", nil, "judge trials by this bound, `NAME=VALUE` such as unattributed=60%; may be repeated (--limit help lists them)")
	flags.BoolVar(&f.json, "json", false, "print the findings as JSON")
	flags.BoolVar(&f.keepLab, "keep-lab", false, "keep the lab running if this command started it")
	addNodeFlags(cmd, &f.nodes, &f.zones, 0, "nodes of the lab if one must be started (default: as many as the study needs)")
	flags.StringVar(&f.linkerd, "linkerd", "", "where Linkerd comes from if a lab with it must be started: a folder or a release (default $"+linkerdVariable+")")
	flags.StringVar(&f.ztunnel, "ztunnel", "", "the `DIR` with ztunnel if a lab with an ambient mesh must be started (default $"+ztunnelVariable+")")
	addKubeconfigFlags(flags, &f.kubeconfig, &f.context, ofLabCluster)
	addRevisionFlag(flags, &f.revision)
	addObserveFlag(flags, &f.observe)
	flags.BoolVar(&f.yes, "yes", false, "do not ask before changing objects that are not the run's own (a run in a local lab never asks)")
	flags.BoolVar(&f.meshWide, "mesh-wide", false, ofLabCluster+"change what affects the whole mesh even where other people's proxies are connected")
	flags.DurationVar(&f.wait, "wait", 0, waitUsage)
	flags.StringVar(&f.image, "image", "", ofLabCluster+"image of the roles, which the cluster must be able to pull (lab components images --push)")
	flags.StringVar(&f.pullSecret, "pull-secret", "", ofLabCluster+"Secret `[NAMESPACE/]NAME` in the cluster for pulling --image (namespace: default)")
}

func runStudy(ctx context.Context, env *Env, f runFlags, args []string) (err error) {
	s, source, plan, err := prepare(ctx, env, f, args)
	if err != nil {
		return err
	}
	rules, err := f.rules(s)
	if err != nil {
		return err
	}
	p := newProgress(env.Stderr)
	defer p.Clear()
	remarks, err := machineRemarks(ctx, p, f) // before the lab makes its own noise
	if err != nil {
		return err
	}
	where, err := openLab(ctx, env, p, f, plan)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeLab(where, p)) }()

	id := runner.NewRunID(time.Now())
	book, err := enter(ctx, p, where.RESTConfig(), id, s.Name, f.wait, where.Kind() == lab.KindLocal)
	if err != nil {
		return labEnded(ctx, where, err)
	}
	defer func() { err = errors.Join(err, leave(ctx, book)) }()
	ctx, release := book.Context(ctx)
	defer release()
	if err := sweepLeftovers(ctx, p, where); err != nil || f.hopeless != nil {
		return errors.Join(f.hopeless, err)
	}
	options := runner.Options{Study: s, Kind: kinds.Of(s).Trial, Rules: rules, Source: source, Observed: f.observe, Remarks: slices.Concat(remarks, unobserved(p, f.observe), besides(where)), Lab: where, LabKind: f.labKind(), Journal: book, RunID: id}
	return runEntered(ctx, env, p, f, plan, options)
}

// runEntered runs a study in a lab that is this run's until it ends.
func runEntered(ctx context.Context, env *Env, p *progress, f runFlags, plan *study.Plan, options runner.Options) (err error) {
	done, err := agreed(ctx, env, p, f, plan, &options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	options.Kept = f.kept
	options.Progress = func(e runner.Event) {
		showEvent(p, plan, e)
	}
	outcome, runErr := runner.Run(ctx, options)
	if lost := context.Cause(ctx); errors.Is(lost, journal.ErrLost) { // nobody interrupted it
		runErr = errs.WithHint(fmt.Errorf("%w (%v)", lost, runErr), "meshtrial cluster status says whose the cluster is; meshtrial cluster restore puts back what is left")
	}
	p.Clear()
	if outcome.Dir == "" {
		return runErr
	}
	if outcome.Trials == 0 {
		return runErr
	}
	findings, err := writeFindings(context.WithoutCancel(ctx), outcome.Dir)
	if err != nil {
		return errors.Join(runErr, err)
	}
	if err := present(env, f, outcome.Dir, findings); err != nil && !unread(err) {
		return errors.Join(runErr, err)
	}
	if runErr != nil {
		return unfinished(runErr, outcome)
	}
	return judgement(findings)
}

// unfinished is the error of a run that has trials and ended before it was done. If its hint
// says how to go on, and what to do before, that stays.
func unfinished(err error, outcome runner.Outcome) error {
	err = fmt.Errorf("the run did not finish (%d trials are kept): %w", outcome.Trials, err)
	if strings.Contains(errs.Hint(err), outcome.Dir) {
		return err
	}
	return errs.WithHint(err, "continue with: meshtrial run --resume %s", outcome.Dir)
}

// complete fills in what a run's options take from the lab and the flags.
func complete(ctx context.Context, p *progress, f runFlags, plan *study.Plan, o *runner.Options) (err error) {
	if o.Components, err = measuredComponents(ctx, o.Lab); err != nil {
		return err
	}
	if o.Digest, err = local.Digest(ownProgram); err != nil {
		return err
	}
	images := o.Lab.Images()
	o.Version, o.Condition = Version(), condition
	o.Mesh, o.Meshes = newMesh(plan.Study.Mesh, images), meshesOf(plan, images)
	if err := chooseRevision(ctx, p, f, plan, o); err != nil {
		return err
	}
	o.Enough, o.Next = analyses.All().Enough, analyses.All().Next
	switch o.Out = f.out; {
	case f.resume != "":
		o.Out, o.Resume = f.resume, true
	case o.Out == "":
		o.Out = filepath.Join("runs", plan.Study.Name+"-"+time.Now().UTC().Format("20060102-150405"))
	}
	return nil
}

// withModel returns the study with what the capacity model expects of its cells.
func (f runFlags) withModel(ctx context.Context, env *Env, s *study.Study, args []string) (*study.Study, []byte, error) {
	expected := ""
	err := computing(ctx, func() (err error) {
		expected, err = expectedBy(ctx, f.model, f.lab, s)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	f.sets = append(slices.Clone(f.sets), expected)
	return chooseStudy(ctx, env, f, args)
}

// prepare reads the study and finds whatever is wrong that can be found
// without starting anything.
func prepare(ctx context.Context, env *Env, f runFlags, args []string) (*study.Study, []byte, *study.Plan, error) {
	fail := func(err error) (*study.Study, []byte, *study.Plan, error) { return nil, nil, nil, err }
	if err := f.check(); err != nil {
		return fail(err)
	}
	s, source, err := chooseStudy(ctx, env, f, args)
	if err == nil && f.model != "" {
		s, source, err = f.withModel(ctx, env, s, args)
	}
	if err == nil {
		s, err = observable(s, f.observe)
	}
	if err != nil {
		return fail(err)
	}
	plan, err := checkedPlan(s, max(s.Seed, 1))
	if err != nil {
		return fail(err)
	}
	if err := f.checkLab(); err != nil {
		return fail(err)
	}
	if f.lab == lab.KindLocal {
		if err := f.fitsLocal(plan); err != nil {
			return fail(err)
		}
		if err := f.fitsMeshes(plan, func(dir string) (string, error) { return components.ZtunnelImage(ctx, dir) }); err != nil {
			return fail(err)
		}
	}
	rules, err := f.rules(s)
	if err != nil {
		return fail(err)
	}
	switch {
	case f.resume != "":
		// Another study, other rules, or another process at work in the directory.
		dir, contents, err := store.Resume(f.resume, s.Marshal(), s.Seed)
		if err == nil {
			err = errors.Join(sameToday(f, contents.Header), runner.SameRules(f.resume, contents.Header, rules), dir.Close())
		}
		if err != nil {
			return fail(err)
		}
	case f.out != "":
		if err := store.Vacant(f.out); err != nil {
			return fail(err)
		}
	}
	for _, n := range askedNotes(plan) {
		n.write(env.Stderr)
	}
	return s, source, plan, nil
}

// rules are those by which trials of a study are judged.
func (f runFlags) rules(s *study.Study) (record.Rules, error) {
	all := kinds.Of(s).Limits
	limits, err := verdict.ParseLimits(f.limits, all)
	return limits.Rules(all), err
}

// check finds flags that do not go together.
func (f runFlags) check() error {
	if f.out != "" && f.resume != "" {
		return errs.Usage("--out and --resume are mutually exclusive")
	}
	if f.model != "" && f.resume != "" {
		return errs.WithHint(errs.Usage("--model and --resume are mutually exclusive: a resumed tuning keeps what it expected"), "leave it out, or start a new run")
	}
	if f.results != "" && !f.detach {
		return errs.WithHint(errs.Usage("--results requires --detach"), "--out names the run directory of a run that is not detached")
	}
	return nil
}

// condition compiles a condition of a step.
func condition(expr string) (func(record.Moment) (bool, error), error) {
	c, err := findings.CompileCondition(expr)
	if err != nil {
		return nil, err
	}
	return c.Holds, nil
}

// writeFindings analyses a run directory and writes findings.json and
// report.html into it.
func writeFindings(ctx context.Context, dir string) (record.Findings, error) {
	run, _, err := store.Load(ctx, dir)
	if err != nil {
		return record.Findings{}, err
	}
	findings, err := analyses.All().Analyze(run)
	if err != nil {
		return record.Findings{}, err
	}
	d, _, err := store.Resume(dir, nil, 0)
	if err != nil {
		return findings, err
	}
	defer d.Close()
	if err := d.WriteFindings(findings); err != nil {
		return findings, err
	}
	var page strings.Builder
	if err := kinds.Reports().Render(&page, findings, "html", report.Options{}); err != nil {
		return findings, err
	}
	if settings := settingsOf(findings.Tuning); settings != "" {
		if err := d.WriteFile(settingsFile, []byte(settings)); err != nil {
			return findings, err
		}
	}
	return findings, d.WriteFile(reportFile, []byte(page.String()))
}

const reportFile = "report.html"

// present prints the findings and where everything is.
func present(env *Env, f runFlags, dir string, findings record.Findings) error {
	if f.json {
		return kinds.Reports().Render(env.Stdout, findings, "json", report.Options{})
	}
	options := report.Options{Width: terminalWidth(env.Stdout), Color: terminalWidth(env.Stdout) > 0 && os.Getenv("NO_COLOR") == ""}
	if err := kinds.Reports().Render(env.Stdout, findings, "text", options); err != nil {
		return err
	}
	if f.detached != "" { // nobody but this pod knows the path
		_, err := fmt.Fprintf(env.Stdout, "\nreport and trials: meshtrial runs fetch %s\n", f.detached)
		return err
	}
	path, err := filepath.Abs(filepath.Join(dir, reportFile))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(env.Stdout, "\nreport: %s\n", path)
	return err
}
