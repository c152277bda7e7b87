package runner

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/study"
	"k8s.io/client-go/rest"
)

// Kind is a kind of study as a run needs it: what its trials want of the
// cluster, and how one of them is carried through.
type Kind interface {
	// Check finds what could not be carried out of a plan before anything is
	// started.
	Check(plan *study.Plan) error
	// Fit says whether a plan can be run in the lab as it is, and which
	// binaries of the mesh would be measured.
	Fit(ctx context.Context, o *Options, plan *study.Plan) ([]record.Component, error)
	// Changes lists what the plan's trials change outside of the run's own
	// namespace, before anything of it is changed.
	Changes(ctx context.Context, o *Options, plan *study.Plan) ([]journal.Planned, error)
	// Deploy makes what the study's trials need. On error nothing is left.
	Deploy(ctx context.Context, d Deployment) (Stage, error)
	// Remains takes away what a run that died made outside its namespace. (What
	// it changed of others' is in the journal.)
	Remains(ctx context.Context, config *rest.Config) error
}

// Ender is a kind whose trials take a time of their own to end, before the run puts back what
// it changed.
type Ender interface {
	// Ending is how long that may take of a plan in the lab as it is.
	Ending(ctx context.Context, o *Options, plan *study.Plan) (time.Duration, error)
}

// Ending is how long a run of the plan may take to put back what it changed, from when it is
// told to end.
func Ending(ctx context.Context, o *Options, plan *study.Plan) (time.Duration, error) {
	kind, ok := o.Kind.(Ender)
	if !ok {
		return site.RestoreTimeout, nil
	}
	own, err := kind.Ending(ctx, o, plan)
	return site.RestoreTimeout + own, err
}

// Deployment is what a kind is told about a run that begins.
type Deployment struct {
	*Options
	Plan  *study.Plan
	RunID string
	// Deployments is how many the run had in earlier attempts.
	Deployments int
	// Recorded are the trials of earlier attempts.
	Recorded []record.Trial
	// Folder makes a folder of the run directory and returns its path.
	Folder func(name string) (string, error)
	// Tell reports what happens.
	Tell func(Event)
}

// Stage is what a study's trials need in the cluster, deployed.
type Stage interface {
	Measurer
	// Place is where it is.
	Place() *site.Site
	// Pods lists the pods whose sidecars a report names.
	Pods() []site.Pod
	// Remove takes everything away again, also when ctx has ended.
	Remove(ctx context.Context) error
}

// Placed is a fault of a cell at the place of the first of these factors that
// the study's file names, with a hint unless the fault has its own.
func Placed(plan *study.Plan, cell record.Cell, err error, hint string, factors ...string) error {
	if at := (study.Errors{}); errors.As(err, &at) {
		return err // it has its place
	}
	if own := errs.Hint(err); own != "" {
		hint = own
	}
	text := err.Error()
	for _, part := range []string{"churn: ", "population: ", "load: "} {
		text = strings.TrimPrefix(text, part)
	}
	return plan.Study.Place(factors...).Errorf(hint, "cell %s: %s", plan.Label(cell), text)
}
