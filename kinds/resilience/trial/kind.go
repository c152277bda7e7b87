package trial

import (
	"context"
	"errors"

	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/runner"
	"github.com/meshtrial/meshtrial/study"
)

// Kind is the kind of study that breaks things on a timeline.
var Kind runner.Kind = resilience{}

type resilience struct{}

// Check implements [Kind].
func (resilience) Check(plan *study.Plan) error { return checkScenario(plan) }

// Fit implements [Kind].
func (resilience) Fit(ctx context.Context, o *runner.Options, plan *study.Plan) ([]record.Component, error) {
	return fitScenario(ctx, o, plan)
}

// Deploy implements [Kind].
func (resilience) Deploy(ctx context.Context, r runner.Deployment) (runner.Stage, error) {
	r.Tell(runner.Event{Stage: "deploy", Text: "deploying the observer"})
	s, err := deployStage(ctx, r)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Restore implements [Kind]: what steps of the timeline changed, and levers of
// the control plane where trials set some.
func (resilience) Restore(ctx context.Context, r runner.Remains) error {
	apply, err := lab.NewApplier(r.Config)
	if err == nil {
		err = restoreScenario(ctx, r.Kube, apply, r.Run)
	}
	if r.Annotations[leversAnnotation] != "true" {
		return err
	}
	plane, done, openErr := r.Control(ctx)
	if openErr != nil {
		return errors.Join(err, openErr)
	}
	return errors.Join(err, plane.Restore(ctx), done())
}
