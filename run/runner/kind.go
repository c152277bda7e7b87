package runner

import (
	"context"
	"errors"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/study"
	"k8s.io/client-go/rest"
)

// Kind is a kind of study from the runner's perspective: what its trials need in the cluster,
// and how to execute them.
type Kind interface {
	// Check rejects a plan that could not be executed, before anything is started.
	Check(plan *study.Plan) error
	// Fit reports whether the lab in its current state can run a plan, and returns the
	// binaries of the mesh that would be measured.
	Fit(ctx context.Context, o *Options, plan *study.Plan) ([]record.Component, error)
	// Changes lists what the plan's trials change outside the run's own namespace, before any
	// change is made.
	Changes(ctx context.Context, o *Options, plan *study.Plan) ([]journal.Planned, error)
	// Deploy creates what the study's trials need. On error nothing is left behind.
	Deploy(ctx context.Context, d Deployment) (Stage, error)
	// Remains removes what a dead run created outside its namespace. (Its changes to other
	// objects are in the journal.)
	Remains(ctx context.Context, config *rest.Config) error
}

// Ender is a kind whose trials need additional time to end before the run reverts its
// changes.
type Ender interface {
	// Ending returns how long that may take for a plan in the current lab.
	Ending(ctx context.Context, o *Options, plan *study.Plan) (time.Duration, error)
}

// Ending returns how long a run of the plan may take to revert its changes, from when it is
// told to end.
func Ending(ctx context.Context, o *Options, plan *study.Plan) (time.Duration, error) {
	kind, ok := o.Kind.(Ender)
	if !ok {
		return site.RestoreTimeout, nil
	}
	own, err := kind.Ending(ctx, o, plan)
	return site.RestoreTimeout + own, err
}

// Deployment is what a kind needs to know about a starting run.
type Deployment struct {
	*Options
	Plan  *study.Plan
	RunID string
	// Deployments is the number of deployments in earlier attempts.
	Deployments int
	// Recorded has the trials of earlier attempts.
	Recorded []record.Trial
	// Folder creates a folder of the run directory and returns its path.
	Folder func(name string) (string, error)
	// Tell reports progress.
	Tell func(Event)
}

// Stage is the deployed part of the cluster that a study's trials need.
type Stage interface {
	Measurer
	// Place returns its site.
	Place() *site.Site
	// Pods lists the pods whose sidecars a report names.
	Pods() []site.Pod
	// Remove removes everything, even after ctx has ended.
	Remove(ctx context.Context) error
}

// Removed joins the error of a [Stage.Remove] to the one that ended a run. Its hint replaces that
// of err: what stays in the cluster comes first.
func Removed(err, left error) error {
	if left == nil {
		return err
	}
	return errs.WithHint(errors.Join(err, left), "meshtrial cluster restore reverts and removes what is left in the cluster")
}

// InOrder takes steps until one fails.
func InOrder(ctx context.Context, steps ...func(context.Context) error) error {
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Placed locates a fault of a cell at the first of these factors that the study's file names,
// with a hint unless the fault already has one.
func Placed(plan *study.Plan, cell record.Cell, err error, hint string, factors ...string) error {
	if at := (study.Errors{}); errors.As(err, &at) {
		return err // it is already located
	}
	if own := errs.Hint(err); own != "" {
		hint = own
	}
	return plan.Study.Place(factors...).Errorf(hint, "cell %s: %v", plan.Label(cell), err)
}
