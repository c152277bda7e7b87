package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/jsonhttp"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/run/detached"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/run/store"
)

func newDetachedRunCommand(env *Env) *cobra.Command {
	var f runFlags
	var run, namespace string
	cmd := &cobra.Command{
		Use:   "detached-run",
		Short: "Make the run of a pod, or go on with what an earlier pod made of it",
		Long: "detached-run is `meshtrial run` in a pod of the Job that run --detach makes. It reaches the\n" +
			"cluster by its pod's service account, and says in a ConfigMap how far it is.",
		Hidden: true,
		Args:   noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for flag, value := range map[string]string{"run": run, "namespace": namespace, "given": f.given} {
				if value == "" {
					return errs.Usage("--%s is missing", flag)
				}
			}
			if f.lab != lab.KindCluster {
				return errs.Usage("a detached run is in a cluster: --lab cluster")
			}
			return runDetached(cmd.Context(), env, f, namespace, run)
		},
	}
	addRunFlags(cmd, &f)
	flags := cmd.Flags()
	flags.StringVar(&f.given, "given", "", "`DIR` with the study, as a run directory has it")
	flags.StringVar(&run, "run", "", "`name` of the detached run")
	flags.StringVar(&namespace, "namespace", "", "`name` of its Job's namespace")
	flags.BoolVar(&f.own, "own", false, "the cluster is a local lab of whoever began the run")
	return cmd
}

// runDetached runs what an attempt of a detached run has to do, and keeps how far it is.
func runDetached(ctx context.Context, env *Env, f runFlags, namespace, run string) error {
	config, err := rest.InClusterConfig()
	if err != nil {
		return errs.WithHint(errs.WithCode(fmt.Errorf("detached-run: %w", err), errs.CodeUsage), "it runs in a pod that has a service account")
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	report, err := detached.NewReporter(ctx, kube, namespace, run)
	if err != nil {
		return err
	}
	switch hopeless := report.Hopeless(); {
	case hopeless == nil:
		err = fromElsewhere(makeAttempt(ctx, env, f, run, report), run)
	case report.PutsBack():
		err = putBack(ctx, env, f, run, hopeless)
	default:
		err = errs.WithHint(hopeless, "%s; meshtrial cluster restore puts back what is left in the cluster", errs.Hint(hopeless))
	}
	report.End(ctx, err)
	return err
}

// putBack ends a hopeless run. Nobody comes after it, so it puts back what its lost pods
// changed in the cluster, as the next run would, and does nothing else.
func putBack(ctx context.Context, env *Env, f runFlags, run string, hopeless error) error {
	f.detached, f.hopeless = run, hopeless
	_, err := f.takeUp(detached.Dir(run), true)
	if err == nil {
		f.wait = 2 * journal.Lapse // for the lost pod's Lease; a run that has taken it since has put everything back
		err = fromElsewhere(runStudy(ctx, env, f, nil), run)
	}
	if !errors.Is(err, hopeless) {
		err = errors.Join(hopeless, err)
	}
	return detached.Last(err)
}

// fromElsewhere has an error's hint mean something where the run's directory is not: of
// its path nobody but this pod knows. What else there is to do stays.
func fromElsewhere(err error, run string) error {
	here := func(part string) bool { return strings.Contains(part, detached.Dir(run)) }
	if !here(errs.Hint(err)) {
		return err
	}
	parts := slices.DeleteFunc(strings.Split(errs.Hint(err), "; "), here)
	parts = append(parts, fmt.Sprintf("meshtrial runs fetch %s gets its directory, which can be resumed", run), "meshtrial runs list says whether another pod resumes it")
	return errs.WithHint(err, "%s", strings.Join(parts, "; "))
}

// makeAttempt runs the study, or resumes what an earlier pod left of it.
func makeAttempt(ctx context.Context, env *Env, f runFlags, run string, report *detached.Reporter) error {
	trials, err := f.takeUp(detached.Dir(run), report.Again())
	if err != nil {
		return err
	}
	report.Has(ctx, trials)
	f.detached = run
	f.kept = func(ctx context.Context) error {
		report.Trial(ctx) // the trial is on the volume: a next pod would find it
		return nil
	}
	return lastIfFutile(runStudy(ctx, env, f, nil))
}

// lastIfFutile has no other pod try what no further trial could be carried through for.
func lastIfFutile(err error) error {
	if runner.IsFutile(err) {
		return detached.Last(err)
	}
	return err
}

// resumeWait is how long a run waits for the cluster, at the least, whose pod was lost.
const resumeWait = 24 * time.Hour

// takeUp has a run go on with what is in its directory, and says how many trials that has.
// What is left of one that was not yet made is removed: nobody else makes it. again says that
// there was a pod before this one.
func (f *runFlags) takeUp(dir string, again bool) (trials int, err error) {
	_, err = os.Stat(filepath.Join(dir, store.FileHeader))
	begun := !errors.Is(err, fs.ErrNotExist)
	if again || begun { // another run may have taken the cluster meanwhile
		f.wait = max(f.wait, resumeWait)
	}
	if !begun {
		f.out = dir
		return 0, os.RemoveAll(dir)
	}
	if err != nil {
		return 0, err
	}
	contents, err := store.Read(dir)
	if err != nil {
		return 0, err
	}
	f.given, f.resume = "", dir
	return len(contents.Trials), nil
}

func newDetachedResultsCommand(env *Env) *cobra.Command {
	var options struct{ dir, control string }
	var alive time.Duration
	cmd := &cobra.Command{
		Use:    "detached-results",
		Short:  "Hand out the directory of a detached run from the volume that it is on",
		Hidden: true,
		Args:   noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if options.dir == "" {
				return errs.Usage("--dir is missing")
			}
			hears := jsonhttp.NewAlive(alive)
			server, err := detached.NewServer(options.dir, options.control, hears)
			if err != nil {
				return err
			}
			return serveRole(cmd.Context(), env, hears, server)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&options.dir, "dir", "", "the run `DIR`")
	flags.StringVar(&options.control, "control", fmt.Sprintf("127.0.0.1:%d", detached.ControlPort), "loopback `address` of the control server")
	addAlone(flags, &alive)
	return cmd
}
