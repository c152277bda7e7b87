package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/meshtrial/meshtrial/app"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/kinds"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/study/studies"
)

// runFlags holds the flags of `meshtrial run`.
type runFlags struct {
	app.RunOptions
	sets    []string
	json    bool
	yes     bool
	detach  bool
	results string // where the results of a detached run go
	page    bool
}

func newRunCommand(env *Env) *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run {STUDY | --resume DIR}",
		Short: "Run a study and write a report",
		Long: "Run a study: one that `meshtrial study list` names, or a file.\n\n" +
			"With --lab local (the default) it runs in the lab on this machine. If none is running,\n" +
			"the command starts one with as many nodes as the study or --nodes requires, and stops it\n" +
			"at the end. With --lab cluster it runs in the cluster of a kubeconfig.\n\n" +
			"Results go to a new directory. Completed trials are always kept; --resume continues from\n" +
			"them. With --detach the run continues in the cluster on its own: `meshtrial attach`\n" +
			"follows it, `meshtrial runs fetch` gets its directory.\n\n" +
			"A study with a tune section searches for the best setting (docs/tuning.md): the run\n" +
			"measures a few cells, uses the results to choose the next ones, and compares the setting\n" +
			"that it recommends with the one in use.\n\n" +
			"Exit codes: 0 run completed, 3 an assertion failed or a verdict is not the expected one,\n" +
			"4 no answer, or an inconclusive verdict.",
		Example: "  meshtrial run quick\n" +
			"  meshtrial run my-study.yaml --set rate=2000 --set connections=[8,16]\n" +
			"  meshtrial run --resume runs/quick-...\n" +
			"  meshtrial run my-study.yaml --lab cluster --image registry.example/meshtrial:1",
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) > 1:
				return errs.Usage("one study at a time, got %d", len(args))
			case len(args) == 0 && f.Resume == "":
				return errs.WithHint(errs.Usage("no study given"), studies.Takes)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(cmd.Flags()); err != nil {
				return err
			}
			return runStudy(cmd.Context(), env, f, args)
		},
	}
	flags := cmd.Flags()
	addWhereFlags(flags, &f.Where, "where to run")
	addSetFlag(cmd, &f.sets)
	flags.StringVar(&f.Out, "out", "", "run `DIR` to create (default runs/STUDY-TIME)")
	flags.StringVar(&f.Resume, "resume", "", "continue the run in this `DIR`")
	flags.StringArrayVar(&f.Limits, "limit", nil, "judge trials by this bound, `NAME=VALUE` such as unattributed=60%; may be repeated (an unknown name prints the list)")
	flags.BoolVar(&f.json, "json", false, "print the findings as JSON")
	addMetricsFlag(flags, &f.Metrics, "the run")
	flags.BoolVar(&f.page, "page", false, "serve a page on this machine that shows the report as it grows; its address goes to standard error")
	flags.BoolVar(&f.KeepLab, "keep-lab", false, "keep the lab running if this command started it")
	addNodeFlags(cmd, &f.Nodes, &f.Zones, 0, "nodes of the lab if one must be started (default: as many as the study needs)")
	f.Meshes = addMeshFlags(flags, mesh.Run).given
	addRevisionFlag(flags, &f.Revision)
	addObserveFlag(flags, &f.Observe)
	flags.BoolVar(&f.yes, "yes", false, "do not ask before changing objects that do not belong to the run (a run in a local lab never asks)")
	flags.BoolVar(&f.MeshWide, "mesh-wide", false, ofLabCluster+"allow changes that affect the whole mesh even if other users' proxies are connected")
	flags.DurationVar(&f.Wait, "wait", 0, waitUsage)
	flags.StringVar(&f.Image, "image", "", ofLabCluster+"the roles' image, which the cluster must be able to pull (lab components images --push)")
	flags.StringVar(&f.PullSecret, "pull-secret", "", ofLabCluster+"Secret `[NAMESPACE/]NAME` in the cluster for pulling --image (namespace: default)")
	flags.BoolVar(&f.detach, "detach", false, "run in the cluster, and continue there after this command ends")
	flags.StringVar(&f.results, "results", "", "with --detach: place for results, `pvc:[NAMESPACE/]NAME` (default in a local lab: a folder of the lab)")
	return cmd
}

// addMetricsFlag adds the flag that serves metrics of the operation in progress.
func addMetricsFlag(flags *pflag.FlagSet, to *string, what string) {
	flags.StringVar(to, "metrics", "", "serve OpenMetrics of "+what+" at this `ADDRESS`: HOST:PORT, or a port of 127.0.0.1")
}

func addObserveFlag(flags *pflag.FlagSet, to *string) {
	flags.StringVar(to, "observe", record.ObservedCgroup,
		"where CPU and memory are read: cgroup (exact; needs a privileged pod on each node) or kubelet (interpolated between its samples, through the API server)")
}

// waitUsage is the usage of the flag --wait.
const waitUsage = "how long to wait for another active run in the cluster"

// addNodeFlags adds the flags of commands that start a lab of several nodes.
func addNodeFlags(cmd *cobra.Command, nodes *int, zones *[]string, usual int, what string) {
	cmd.Flags().IntVar(nodes, "nodes", usual, fmt.Sprintf("%s, at most %d", what, local.MaxNodes))
	cmd.Flags().StringSliceVar(zones, "zones", nil, "zones of the nodes, `ZONE or REGION/ZONE`, assigned round-robin (default: one zone per node if there are several)")
}

// runStudy runs the study of the arguments, detached or in this process.
func runStudy(ctx context.Context, env *Env, f runFlags, args []string) (err error) {
	if f.Study, f.Source, err = chooseStudy(ctx, env, f, args); err != nil {
		return err
	}
	p := newProgress(env.Stderr)
	defer p.Clear()
	f.tell(env, p)
	if f.detach {
		return detach(ctx, env, f, p)
	}
	if f.page {
		return runWithPage(ctx, p, f.RunOptions)
	}
	return app.Run(ctx, f.RunOptions)
}

// tell makes a run report progress to the user at env, ask for consent there, and print findings.
func (f *runFlags) tell(env *Env, p *progress) {
	f.Progress = p
	f.Confirm = func(ctx context.Context, text string) error { return ask(ctx, env, p, false, text, f.yes) }
	events := &eventLine{progress: p}
	f.Event = events.show
	f.Present = func(a app.Analyzed) error {
		if err := present(env, f.json, a.Dir, a.Findings); !unread(err) {
			return err
		}
		return nil
	}
}

// check returns an error for flags that have no meaning in combination with the others.
func (f *runFlags) check(flags *pflag.FlagSet) error {
	if f.Lab == lab.KindLocal {
		if err := refuse(flags, "requires --lab cluster", "kubeconfig", "context", "image", "pull-secret", "mesh-wide"); err != nil {
			return err
		}
	}
	if f.Lab == lab.KindCluster || f.detach {
		if err := refuse(flags, "applies only to a lab that the run starts on this machine", append(meshFlagNames(mesh.Run), "nodes", "zones", "keep-lab")...); err != nil {
			return err
		}
	}
	if f.detach {
		if f.results == "" && f.Lab == lab.KindCluster {
			return errs.WithHint(errs.Usage("--detach requires a place for results in the cluster"), "--results pvc:NAMESPACE/NAME, a PersistentVolumeClaim")
		}
		return refuse(flags, "does not apply to a detached run: `meshtrial runs fetch RUN --to DIR` creates its directory on this machine, and it resumes by itself", "out", "resume", "metrics", "page")
	}
	if f.Resume != "" {
		if err := refuse(flags, "applies to a new run, not to --resume", "out"); err != nil {
			return err
		}
	}
	return refuse(flags, "requires --detach", "results")
}

// refuse returns a usage error if one of the flags is given.
func refuse(flags *pflag.FlagSet, why string, names ...string) error {
	for _, name := range names {
		if flags.Changed(name) {
			return errs.Usage("--%s %s", name, why)
		}
	}
	return nil
}

// present prints the findings and the path of the report.
func present(env *Env, asJSON bool, dir string, findings record.Findings) error {
	if asJSON {
		return kinds.Reports().Render(env.Stdout, findings, "json", report.Options{})
	}
	if err := presentText(env, findings); err != nil {
		return err
	}
	path, err := filepath.Abs(filepath.Join(dir, app.ReportFile))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(env.Stdout, "\nreport: %s\n", path)
	return err
}

func presentText(env *Env, findings record.Findings) error {
	return kinds.Reports().Render(env.Stdout, findings, "text", (&textFlags{}).on(env.Stdout))
}

// detach begins a detached run and prints how to find it.
func detach(ctx context.Context, env *Env, f runFlags, p *progress) error {
	var results app.Results
	if f.results != "" {
		var err error
		if results, err = claimOf(f.results); err != nil {
			return err
		}
	}
	begun, err := app.Detach(ctx, f.RunOptions, results)
	if err != nil {
		return err
	}
	p.Clear()
	if f.json {
		return writeJSON(env.Stdout, map[string]any{"schema": 1, "run": begun.Run, "namespace": begun.Namespace})
	}
	which := begun.Run + begun.Flags
	_, err = fmt.Fprintf(env.Stdout, "run %s of %s continues in the cluster\n  to follow it:          meshtrial attach %s\n  to fetch it when done: meshtrial runs fetch %s\n",
		begun.Run, begun.Study, which, which)
	return err
}

// claimOf parses the value of --results.
func claimOf(text string) (app.Results, error) {
	claim, ok := strings.CutPrefix(text, "pvc:")
	namespace, name, both := strings.Cut(claim, "/")
	if !both {
		namespace, name = "default", claim
	}
	if !ok || len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return app.Results{}, errs.WithHint(errs.Usage("invalid --results %s", text), "name a PersistentVolumeClaim: pvc:NAME or pvc:NAMESPACE/NAME")
	}
	return app.Results{Namespace: namespace, Claim: name}, nil
}

// eventLine shows the user what the runner is doing.
type eventLine struct {
	*progress
	trial   atomic.Pointer[string] // the trial in progress, in front of its steps
	invalid atomic.Bool            // an invalid trial was shown; without a terminal only the first is
}

func (p *eventLine) show(plan *study.Plan, e runner.Event) {
	switch e.Stage {
	case "trial":
		if e.Record == nil {
			place := fmt.Sprintf("block %d, trial %d", e.Block+1, e.Trial)
			p.trial.Store(&place)
			p.Say("%s", app.TrialWords(plan, e))
			return
		}
		p.trial.Store(nil) // what follows, such as removing pods, belongs to none
		if !e.Record.Validity.Valid && (p.invalid.CompareAndSwap(false, true) || p.width > 0) {
			p.Note("trial %s (%s) is not valid: %s", e.Record.ID, e.Cell, firstFailure(e.Record.Validity))
		}
	case "step", "timeline":
		if place := p.trial.Load(); place != nil {
			p.Say("%s: %s", *place, e.Text)
		} else {
			p.Say("%s", e.Text)
		}
	case runner.StageWarming, runner.StageQuiet, runner.StageLoud:
	case runner.StageWait:
		p.Note("%s", e.Text)
	case "block":
		p.Say("block %d done", e.Block+1)
	default:
		p.Say("%s", e.Text)
	}
}

func firstFailure(v record.Validity) string {
	for _, c := range v.Checks {
		if !c.OK {
			return c.Name + ": " + c.Detail
		}
	}
	return "no reason recorded"
}
