package trial

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/drive/population"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/study"
)

// Kind runs control-plane trials, which change configuration and watch it reach the sidecars.
var Kind runner.Kind = controlKind{}

type controlKind struct{}

// Check implements [Kind]: it finds what the driver of changes would reject.
func (controlKind) Check(plan *study.Plan) error { return checkControl(plan) }

// Fit implements [Kind].
func (controlKind) Fit(ctx context.Context, o *runner.Options, plan *study.Plan) ([]record.Component, error) {
	if o.Control == nil {
		return nil, errs.Usage("mesh %s has no control plane to study", o.Mesh.Name())
	}
	asked, err := Asks(plan)
	if err != nil {
		return nil, err
	}
	return o.Mesh.Check(ctx, o.Lab.RESTConfig(), asked.Proxies)
}

// Ending implements [runner.Ender]: what changes created is removed, and later the population with
// its EndpointSlices.
func (controlKind) Ending(_ context.Context, _ *runner.Options, plan *study.Plan) (time.Duration, error) {
	return cleanTimeout + site.SlicesTime(controlplane.EndpointSlices(plan)), nil
}

// Deploy implements [Kind].
func (controlKind) Deploy(ctx context.Context, r runner.Deployment) (runner.Stage, error) {
	what := "pod"
	if n := controlplane.Simulators(r.Plan); n > 1 {
		what = fmt.Sprintf("%d pods", n)
	}
	r.Tell(runner.Event{Stage: "deploy", Text: "deploying the simulated sidecars' " + what})
	c, err := deployControl(ctx, r)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Remains implements [Kind]: it finds the simulated pods.
func (controlKind) Remains(ctx context.Context, config *rest.Config) error {
	world, err := population.New(config)
	if err != nil {
		return err
	}
	return world.Remove(ctx)
}
