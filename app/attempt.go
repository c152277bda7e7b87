package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/run/detached"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/run/store"
	"github.com/meshtrial/meshtrial/study"
)

// RunAttempt is what the pod of a detached run does: it runs the study, or resumes what an
// earlier pod left, and reports its progress in namespace. The options are those passed to
// [Detach], plus Progress.
func RunAttempt(ctx context.Context, o RunOptions, namespace, run string) error {
	config, err := rest.InClusterConfig()
	if err != nil {
		return errs.WithHint(errs.WithCode(fmt.Errorf("detached-run: %w", err), errs.CodeUsage),
			"it must run in a pod with a service account")
	}
	kubernetes.Prepare(config)
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	report, err := detached.NewReporter(ctx, kube, namespace, run)
	if err != nil {
		return err
	}
	o.detachedRun = run
	switch exhausted := report.Exhausted(); {
	case exhausted == nil:
		err = o.attempt(ctx, report)
	case report.Reverts():
		err = o.lastRevert(ctx, exhausted)
	default:
		err = errs.WithHint(exhausted, "%s; meshtrial cluster restore reverts what is left in the cluster",
			errs.Hint(exhausted))
	}
	report.End(ctx, err)
	return err
}

// lastRevert ends a run that no other pod will continue: it reverts what the lost pods changed
// in the cluster, as the next run would, and does nothing else.
func (o *RunOptions) lastRevert(ctx context.Context, failed error) error {
	_, err := o.takeUp(detached.GivenDir, detached.Dir(o.detachedRun), true)
	if err == nil {
		o.Wait = 2 * journal.Lapse // for the lost pod's Lease; a run that has taken it since has reverted everything
		err = Revert(ctx, *o)
	}
	return detached.Final(errors.Join(failed, err))
}

// fetchHint says how to get at a detached run's directory, whose path only its pod knows.
func (o *RunOptions) fetchHint() string {
	return fmt.Sprintf("meshtrial runs fetch %s gets its directory, which can be resumed; meshtrial runs list shows whether another pod resumes it", o.detachedRun)
}

// attempt runs the study, or resumes what an earlier pod left of it.
func (o *RunOptions) attempt(ctx context.Context, report *detached.Reporter) error {
	trials, err := o.takeUp(detached.GivenDir, detached.Dir(o.detachedRun), report.Again())
	if err != nil {
		return err
	}
	report.Has(ctx, trials)
	o.Kept = func(ctx context.Context) error {
		report.Trial(ctx) // the trial is on the volume: a next pod would find it
		return nil
	}
	return finalIfFatal(Run(ctx, *o))
}

// finalIfFatal makes a [runner.Fatal] error [detached.Final]: another pod could not complete a
// trial either.
func finalIfFatal(err error) error {
	if runner.IsFatal(err) {
		return detached.Final(err)
	}
	return err
}

// resumeWait is how long a run at least waits for the cluster whose pod was lost.
const resumeWait = 24 * time.Hour

// takeUp chooses whether to resume the run in dir or to begin with the study in given, and
// returns how many trials there are. It removes what is left of a run that had no header yet.
// again says that there was a pod before this one.
func (o *RunOptions) takeUp(given, dir string, again bool) (trials int, err error) {
	_, err = os.Stat(filepath.Join(dir, store.FileHeader))
	begun := !errors.Is(err, fs.ErrNotExist)
	if again || begun { // another run may have taken the cluster meanwhile
		o.Wait = max(o.Wait, resumeWait)
	}
	if begun {
		if err != nil {
			return 0, err
		}
		contents, err := store.Read(dir)
		if err != nil {
			return 0, err
		}
		o.Resume = dir
		o.Study, err = resumed(contents, dir)
		o.Source = contents.Study
		return len(contents.Trials), err
	}
	o.Out = dir
	if err := os.RemoveAll(dir); err != nil {
		return 0, err
	}
	if o.Source, err = os.ReadFile(filepath.Join(given, store.FileStudy)); err != nil {
		return 0, err
	}
	path := filepath.Join(given, store.FileResolved)
	resolved, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	o.Study, err = study.ParseAgain(resolved, path, nil) // whoever launched the run has checked it
	return 0, err
}

// ResumedStudy reads the study of the run in dir, and the file that it was given as.
func ResumedStudy(dir string) (*study.Study, []byte, error) {
	contents, err := store.Read(dir)
	if err != nil {
		return nil, nil, err
	}
	s, err := resumed(contents, dir)
	return s, contents.Study, err
}

func resumed(contents store.Contents, dir string) (*study.Study, error) {
	return study.ParseAgain(contents.Resolved, filepath.Join(dir, store.FileResolved), nil)
}
