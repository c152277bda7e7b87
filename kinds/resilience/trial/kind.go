package trial

import (
	"context"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/runner"
	"github.com/meshtrial/meshtrial/study"
	"k8s.io/client-go/rest"
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

// Remains implements [Kind]: what steps changed elsewhere is in the journal.
func (resilience) Remains(context.Context, *rest.Config) error { return nil }
