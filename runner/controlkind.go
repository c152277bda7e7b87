package runner

import (
	"context"
	"errors"

	"github.com/meshtrial/meshtrial/errs"
	"github.com/meshtrial/meshtrial/population"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// ControlPlane is the kind of study that changes configuration and watches it
// reach the sidecars.
var ControlPlane Kind = controlKind{}

type controlKind struct{}

// Check implements [Kind]: it finds what the driver of changes would refuse.
func (controlKind) Check(plan *study.Plan) error { return checkControl(plan) }

// Fit implements [Kind].
func (controlKind) Fit(ctx context.Context, o *Options, _ *study.Plan) ([]record.Component, error) {
	if o.Control == nil {
		return nil, errs.Usage("mesh %s has no control plane that could be studied", o.Mesh.Name())
	}
	return o.Mesh.Check(ctx, o.Lab.RESTConfig(), nil)
}

// Deploy implements [Kind].
func (controlKind) Deploy(ctx context.Context, r Deployment) (Stage, error) {
	r.Tell(Event{Stage: "deploy", Text: "deploying the simulated sidecars' pod"})
	c, err := deployControl(ctx, r)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Restore implements [Kind]: istiod's levers, and the simulated pods.
func (controlKind) Restore(ctx context.Context, r Remains) (err error) {
	plane, done, err := r.Control(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	world, err := population.New(r.Config)
	if err != nil {
		return err
	}
	return restoreControl(ctx, r.Kube, plane, world, r.Run)
}
