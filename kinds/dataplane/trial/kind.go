// Package trial runs data-plane trials: requests through sidecars.
//
//	study.Plan -> topology (values) -> deploy (pods) -> trial
//
// All pods of all cells stay up for the whole run and take turns; a cell picks a client pod and a
// server Service. In a trial the generator runs one continuous schedule. The trial polls its
// intervals and the parts' CPU until both are steady, fixes a window of whole intervals ahead of
// time, and stays silent until it has passed. Then it collects the generator's histograms, the
// node's CPU counters at the edges of the window, memory, and the counters of worker and proxies
// over the whole trial, and checks that the cell's mode was really active.
package trial

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/study"
)

// Kind runs data-plane trials, which send requests through sidecars.
var Kind runner.Kind = dataPlane{}

type dataPlane struct{}

// Check implements [Kind]: it finds what the generator would reject.
func (dataPlane) Check(plan *study.Plan) error {
	t := newTopology("check", plan)
	for _, cell := range plan.Cells {
		server := t.servers[dataplane.ServerVariant(cell)]
		spec, err := loadSpec(plan.Study, cell, url(server, nil, cell, plan.Study.Load), 1)
		if err != nil {
			return runner.Placed(plan, cell, err, "", study.FactorRate, study.FactorConnections)
		}
		if _, err := spec.Split(dataplane.GeneratorsIn(cell)); err != nil {
			return runner.Placed(plan, cell, err, "", study.FactorGenerators, study.FactorConnections)
		}
	}
	return nil
}

// Fit implements [Kind].
func (dataPlane) Fit(ctx context.Context, o *runner.Options, plan *study.Plan) ([]record.Component, error) {
	if _, err := newTopology("check", plan).deployments(o.Mesh, o.Lab.Images(), "check"); err != nil {
		return nil, err
	}
	if _, err := findPlaces(ctx, o.Lab, plan, nil); err != nil {
		return nil, err
	}
	if err := checkSpread(ctx, o.Lab, plan); err != nil {
		return nil, err
	}
	return o.Mesh.Check(ctx, o.Lab.RESTConfig(), Asks(plan).Proxies)
}

// Asks returns what a plan requires of the installed mesh.
func Asks(plan *study.Plan) mesh.Asked {
	out := mesh.Asked{Proxies: newTopology("", plan).proxies()}
	for _, cell := range plan.Cells {
		client, server := study.HasClientProxy(cell), study.HasServerProxy(cell)
		out.Sent, out.Served = out.Sent || client, out.Served || server
		out.Ambient, out.Waypoint = out.Ambient || study.Ambient(cell), out.Waypoint || study.Waypoint(cell)
		if study.Entering(cell) || study.Leaving(cell) {
			out.Proxies, out.Served = append(out.Proxies, *mesh.PlainProxy()), true // the gateway
		}
		out.Unknown = out.Unknown || client && cell[study.FactorDestination] == study.DestinationOutside
		out.Plain = out.Plain || client && (!server || cell[study.FactorMTLS] == study.MTLSOff)
		if port := endpointOf(cell, plan.Study.Load).Port; client && !slices.Contains(out.Ports, port) {
			out.Ports = append(out.Ports, port)
		}
	}
	return out
}

// Deploy implements [Kind].
func (dataPlane) Deploy(ctx context.Context, r runner.Deployment) (runner.Stage, error) {
	r.Tell(runner.Event{Stage: "deploy", Text: fmt.Sprintf("deploying %d client and %d server pods", dataplane.LoadPods(r.Plan), len(dataplane.ServerVariants(r.Plan)))})
	d, err := deploy(ctx, r)
	if err != nil {
		return nil, err
	}
	for _, text := range d.unextended() {
		r.Tell(runner.Event{Stage: "deploy", Text: text})
	}
	return d, nil
}

// Changes implements [Kind]: all changes are in the run's namespace.
func (dataPlane) Changes(context.Context, *runner.Options, *study.Plan) ([]journal.Planned, error) {
	return nil, nil
}

// Remains implements [Kind]: such a run creates nothing outside its namespace.
func (dataPlane) Remains(context.Context, *rest.Config) error { return nil }
